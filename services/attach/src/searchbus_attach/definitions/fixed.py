"""The schema of arguments without those that a view fixes: callers neither see nor need them.

A condition that looks at one of them is left out, so that the schema can accept more than the
server does; the server checks its arguments itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["without_arguments"]

_COMBINED = ("allOf", "anyOf", "oneOf")
_CONDITION = ("if", "then", "else")
_DEFINITIONS = ("$defs", "definitions")
_MAX_CHARS = 2**20
"""Of names and texts; four times what a whole tool of a server has."""


def without_arguments(schema: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A schema without these arguments.

    Args:
        schema: as schemas.py makes it; its references have an end.

    Returns:
        One that says nothing of the arguments where it would be large: a definition is repeated
        wherever it is referred to.
    """
    if not names:
        return schema
    hiding = _Hiding(schema, names)
    found: dict[str, Any] = hiding.apply(schema)
    if _is_large(found):
        return {"type": "object"}
    for table, name in hiding.copied:
        rest = {key: part for key, part in found[table].items() if key != name}
        # Others may refer to it.
        if json.dumps(f"#/{table}/{name}") not in json.dumps({**found, table: rest}):
            found[table] = rest
    return found


def _is_large(schema: dict[str, Any]) -> bool:
    """Whether it has more text, parts that are there twice counted twice."""
    chars, left = 0, [schema]
    while left and chars <= _MAX_CHARS:
        part: Any = left.pop()
        chars += len(part) if isinstance(part, str) else 1
        if isinstance(part, dict):
            left += part.values()
            chars += sum(map(len, part))
        elif isinstance(part, list):
            left += part
    return chars > _MAX_CHARS


class _Hiding:
    """Hides arguments.

    Attributes:
        copied: definitions that are now part of what referred to them, the outer ones first.
    """

    def __init__(self, root: Mapping[str, Any], names: Collection[str]) -> None:
        self._root = root
        self._names = names
        self.copied: dict[tuple[str, str], None] = {}

    def apply(self, part: Any) -> Any:
        """A part of the schema that is about the arguments as a whole."""
        if not isinstance(part, dict):
            return part
        found = self._with_definition(part)
        for key in ("properties", "dependentSchemas", "dependentRequired"):
            if isinstance(found.get(key), dict):
                found[key] = {n: v for n, v in found[key].items() if n not in self._names}
        if isinstance(found.get("required"), list):
            found["required"] = self._others(found["required"])
        if "dependentRequired" in found:
            needed = found["dependentRequired"].items()
            found["dependentRequired"] = {name: self._others(more) for name, more in needed}
        if "dependentSchemas" in found:
            schemas = found["dependentSchemas"].items()
            found["dependentSchemas"] = {name: self.apply(more) for name, more in schemas}
        for key in _COMBINED:
            if isinstance(found.get(key), list):
                found[key] = [self.apply(one) for one in found[key]]
        # Once: conditions of conditions would double the work at each level.
        condition = self.apply(found.get("if"))
        looks_at_them = condition != found.get("if")
        for key in _CONDITION:
            if key in found:
                value = found.pop(key)
                if not looks_at_them:
                    found[key] = condition if key == "if" else self.apply(value)
        return found

    def _others(self, names: list[str]) -> list[str]:
        return [name for name in names if name not in self._names]

    def _with_definition(self, part: dict[str, Any]) -> dict[str, Any]:
        """A part with the definition that it refers to, in place of the reference."""
        found = dict(part)
        start, _, path = str(found.get("$ref", "")).partition("/")
        table, _, name = path.partition("/")
        definitions = self._root.get(table) if start == "#" and table in _DEFINITIONS else None
        if isinstance(definitions, dict) and name in definitions:
            del found["$ref"]
            found["allOf"] = [*found.get("allOf", ()), definitions[name]]
            self.copied[table, name] = None
        return found
