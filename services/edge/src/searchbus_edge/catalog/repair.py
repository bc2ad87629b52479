"""Repairs the forms in which models and clients send arguments, where the schema leaves no doubt.

- 5.0 is an integer (JSON Schema 2020-12, validation, 6.1.1), and becomes one for the worker.
- null for an optional property that allows no null means that the property is absent.
- A string is read as JSON where the schema allows no string, and wants what was read.

Everything else stays as it is, for the validation to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from searchbus_contracts.schemas import resolved

_ABSENT = object()
_NOTHING: Mapping[str, Any] = {}
_LARGEST_INTEGER = 2**53
"""Above it a JSON number with a fraction does not name one integer (RFC 8259, 6)."""
_MAX_DEPTH = 8
"""Levels of references to references and of choices within choices: schemas may be circular."""
_TYPE_NAMES = {
    str: "string", bool: "boolean", int: "integer", float: "number",
    list: "array", dict: "object", type(None): "null",
}  # fmt: skip


class Repair:
    """The repair of the values of one JSON Schema, whose parts are read when needed; a schema that
    does not say which types it allows repairs nothing. A part of the schema of `whole` has one
    repair, however many paths lead to it: a schema that refers to itself has paths without end."""

    def __init__(self, schema: Any, whole: Repair | None = None) -> None:
        self._root: Any = whole._root if whole is not None else schema
        # By the id of a resolved schema, which the root keeps alive.
        self._parts: dict[int, Repair] = whole._parts if whole is not None else {}
        self._schema = _resolved(schema, self._root)

    def __call__(self, value: Any) -> Any:
        """The repaired value; the same object where nothing was repaired."""
        if isinstance(value, str):
            may_be_json = self.types and "string" not in self.types
            return self._from_text(value) if may_be_json else value
        if isinstance(value, float):
            whole = value.is_integer() and abs(value) <= _LARGEST_INTEGER
            wanted = "integer" in self.types and "number" not in self.types
            return int(value) if whole and wanted else value
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return self._array(value)
        return value

    @cached_property
    def types(self) -> frozenset[str]:
        """Names of the allowed types; empty where the schema does not say."""
        return _types(self._schema, self._root)

    @cached_property
    def _properties(self) -> dict[str, Repair]:
        found = self._schema.get("properties")
        if not isinstance(found, dict):
            return {}
        return {name: self._part(schema) for name, schema in found.items()}

    @cached_property
    def _required(self) -> frozenset[str]:
        found = self._schema.get("required")
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    @cached_property
    def _items(self) -> Repair | None:
        found = self._schema.get("items")
        return self._part(found) if isinstance(found, dict) else None

    def _part(self, schema: Any) -> Repair:
        found = _resolved(schema, self._root)
        if id(found) not in self._parts:
            self._parts[id(found)] = Repair(found, self)
        return self._parts[id(found)]

    def _from_text(self, text: str) -> Any:
        try:
            # As requests are read: numbers beyond a float's range, and halves of surrogate pairs,
            # are no JSON that could be sent on.
            value = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return text
        repaired = value if isinstance(value, str) else self(value)
        kind = _TYPE_NAMES.get(type(repaired), "")
        fits = kind in self.types or (kind == "integer" and "number" in self.types)
        return repaired if fits and kind != "null" else text

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for name, inner in value.items():
            repair = self._properties.get(name)
            if repair is None:
                continue
            if inner is None:
                if repair.types and "null" not in repair.types and name not in self._required:
                    changed[name] = _ABSENT
            elif (repaired := repair(inner)) is not inner:
                changed[name] = repaired
        if not changed:
            return value
        return {n: v for n, v in {**value, **changed}.items() if v is not _ABSENT}

    def _array(self, value: list[Any]) -> list[Any]:
        if self._items is None:
            return value
        repaired = [self._items(item) for item in value]
        same = all(new is old for new, old in zip(repaired, value, strict=True))
        return value if same else repaired


def _resolved(schema: Any, root: Any) -> Mapping[str, Any]:
    """The schema that a chain of local references leads to; empty where it leads nowhere."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict):
            return _NOTHING
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        if not reference.startswith("#/"):
            return _NOTHING
        schema = resolved(reference, root)
    return _NOTHING


def _types(schema: Mapping[str, Any], root: Any, depth: int = 0) -> frozenset[str]:
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset((named,))
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str))
    if isinstance(values := schema.get("enum"), list):
        return frozenset(_TYPE_NAMES.get(type(value), "") for value in values)
    choices = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(choices, list) or depth >= _MAX_DEPTH:
        return frozenset()
    each = [_types(_resolved(choice, root), root, depth + 1) for choice in choices]
    # One choice that does not say its types allows any.
    return frozenset().union(*each) if all(each) else frozenset()
