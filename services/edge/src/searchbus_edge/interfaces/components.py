"""The schemas of an OpenAPI document, taken from documents of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_PREFIX = "#/components/schemas/"
_DEFINITIONS = ("$defs", "definitions")
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", *_DEFINITIONS})
"""Keywords whose keys are names, and whose values are schemas."""
_VALUES = frozenset({"const", "enum", "default", "examples", "example"})
"""Keywords whose values are no schemas."""
_ITEMS = frozenset({"items", "prefixItems", "unevaluatedItems"})
_OF_A_DOCUMENT = frozenset({"$schema", "$id", "$comment"})
_UNMOVABLE = frozenset({"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef"})
"""Keywords that name places in a document, which the move would change."""


class Components:
    """The schemas of a document, by unique names.

    A tool's schema is a document of its own, with definitions in `$defs` and references that start
    at its root. In OpenAPI both have one place, `#/components/schemas`, and many generators of
    clients read no other references.

    Args:
        schemas: those that the document has already.
    """

    def __init__(self, schemas: Mapping[str, Any] | None = None) -> None:
        self.schemas: dict[str, Any] = dict(schemas or {})
        self._names = {name.lower() for name in self.schemas}

    def add(self, name: str, schema: Mapping[str, Any]) -> dict[str, str]:
        """Add a schema with its definitions; the reference to it (`look_up arguments` becomes
        `LookUpArguments`). One that cannot be moved becomes any object: the tool checks its
        arguments anyway."""
        root = self._name(name)
        places = {f"#/{kind}/{_escaped(part)}": self._name(f"{root} {part}")
                  for kind in _DEFINITIONS
                  for part in _definitions(schema, kind)}  # fmt: skip

        def moved(reference: str) -> str:
            head = "/".join(reference.split("/")[:3])
            if head in places:
                return _PREFIX + places[head] + reference[len(head) :]
            return _PREFIX + root + reference[1:]

        try:
            found = {
                places[f"#/{kind}/{_escaped(part)}"]: _moved(definition, moved)
                for kind in _DEFINITIONS
                for part, definition in _definitions(schema, kind).items()
            }
            found[root] = _moved({k: v for k, v in schema.items() if k not in _DEFINITIONS}, moved)
        except _CannotMoveError:
            found = {root: {"type": "object"}}
        for component in found.values():
            # Generators name classes by titles, which tools may have in common.
            if isinstance(component, dict):
                component.pop("title", None)
        self.schemas |= found
        return {"$ref": _PREFIX + root}

    def _name(self, text: str) -> str:
        """A name that no other component has, not even with other upper case."""
        words = re.split(r"[^A-Za-z0-9]+", text)
        plain = "".join(word[:1].upper() + word[1:] for word in words) or "Schema"
        name, number = plain, 2
        while name.lower() in self._names:
            name, number = f"{plain}{number}", number + 1
        self._names.add(name.lower())
        return name


class _CannotMoveError(Exception):
    """A schema names places that exist only in its own document."""


def _definitions(schema: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found = schema.get(kind)
    return found if isinstance(found, dict) else {}


def _escaped(name: str) -> str:
    """A name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _moved(schema: Any, reference: Callable[[str], str]) -> Any:
    """A copy of a schema with other references."""
    if isinstance(schema, list):
        return [_moved(part, reference) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _UNMOVABLE:
            raise _CannotMoveError
        if key == "$ref" and isinstance(value, str):
            if value != "#" and not value.startswith("#/"):
                raise _CannotMoveError
            found[key] = reference(value)
        elif key in _MAPS and isinstance(value, dict):
            found[key] = {name: _moved(part, reference) for name, part in value.items()}
        elif key in _VALUES:
            found[key] = value
        elif key not in _OF_A_DOCUMENT:
            found[key] = _moved(value, reference)
    if _is_bare_array(found):
        found["items"] = {}  # says the same, and openapi-python-client reads no array without it
    return found


def _is_bare_array(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    names_arrays = kind == "array" or (isinstance(kind, list) and "array" in kind)
    return names_arrays and not schema.keys() & _ITEMS
