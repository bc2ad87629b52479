"""Checks of JSON Schemas that others wrote, before anything compiles or follows them.

A schema refers to nothing outside of itself, since a reader could fetch it, and validating one
value against it takes a limited number of steps: references to references could double the work
at each level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

__all__ = ["DIALECTS", "check_schema", "foreign_dialect"]

DIALECTS = frozenset({
    "https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#",
})  # fmt: skip
MAX_VALUES = 20_000
MAX_DEPTH = 64
MAX_APPLIED = 300
"""Subschemas that apply to one value at once; unions of a hundred kinds stay below."""
MAX_PATTERN_CHARS = 1_000
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas", "dependencies")
"""Keywords whose subschemas apply to the same value as the schema itself."""
_WATCHED = frozenset({*_REFERENCES, *_ANCHORS, "$id", "pattern", "patternProperties"})


def foreign_dialect(schema: Mapping[str, Any]) -> str | None:
    """The `$schema` of a schema that is not of 2020-12; it is read as 2020-12 all the same."""
    named = schema.get("$schema")
    return None if named is None or named in DIALECTS else str(named)[:200]


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check a schema's size, references and cost; the meta-schema is not looked at.

    Raises:
        ValueError: it says what is wrong.
    """
    anchors: dict[str, Any] = {}
    objects = _objects(schema)
    refers = False
    for value in objects:
        for key in _WATCHED.intersection(value):
            refers = refers or key in _REFERENCES
            _check_keyword(key, value, schema, anchors)
    # Without references fewer subschemas apply to a value than there are.
    if refers or len(objects) > MAX_APPLIED:
        applied = _Applied(schema, anchors)
        try:
            for value in objects:
                applied.count(value)
        except RecursionError:
            raise ValueError("the schema refers to itself over too many steps") from None


def _check_keyword(
    key: str, value: Mapping[str, Any], schema: Mapping[str, Any], anchors: dict[str, Any]
) -> None:
    found = value[key]
    if key == "patternProperties":
        for pattern in found if isinstance(found, dict) else ():
            _check_pattern(pattern)
    elif not isinstance(found, str):
        return
    elif key == "pattern":
        _check_pattern(found)
    elif key in _REFERENCES:
        if not found.startswith("#"):
            raise ValueError(f"{key} refers outside of the schema; use $defs")
    elif key == "$id":
        if value is not schema:
            raise ValueError("$id inside of a schema gives references another start; use $defs")
    elif anchors.setdefault(found, value) is not value:
        raise ValueError(f"two parts of the schema have the {key} {found[:64]!r}")


def _check_pattern(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"a pattern has over {MAX_PATTERN_CHARS} characters")


def _objects(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Every object of a schema; raises ValueError where there is too much of it."""
    found: list[Mapping[str, Any]] = []
    level: list[Any] = [schema]
    count = 0
    for _ in range(MAX_DEPTH):
        following: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                found.append(value)
                following += value.values()
            elif isinstance(value, list):
                following += value
        count += len(level)
        if count > MAX_VALUES:
            raise ValueError(f"the schema has over {MAX_VALUES} values")
        level = following
        if not level:
            return found
    raise ValueError(f"the schema is nested more than {MAX_DEPTH} levels deep")


class _Applied:
    """Counts the subschemas that apply to one value together with a schema, references followed."""

    def __init__(self, root: Mapping[str, Any], anchors: Mapping[str, Any]) -> None:
        self._root = root
        self._anchors = anchors
        self._known: dict[int, int | None] = {}

    def count(self, schema: Any) -> int:
        """The number; raises ValueError where it is too large, or without end."""
        if not isinstance(schema, dict):
            return 1
        key = id(schema)
        if key in self._known:
            found = self._known[key]
            if found is None:
                raise ValueError("the schema refers to itself without end")
            return found
        self._known[key] = None
        total = 1 + sum(self.count(part) for part in self._parts(schema))
        if total > MAX_APPLIED:
            raise ValueError(f"over {MAX_APPLIED} parts of the schema apply to one value")
        self._known[key] = total
        return total

    def _parts(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for key in _LISTS:
            found = schema.get(key)
            yield from found if isinstance(found, list) else ()
        for key in _SINGLE:
            if key in schema:
                yield schema[key]
        for key in _MAPS:
            found = schema.get(key)
            yield from found.values() if isinstance(found, dict) else ()
        for key in _REFERENCES:
            if isinstance(reference := schema.get(key), str):
                yield self._resolved(reference)

    def _resolved(self, reference: str) -> Any:
        """What a local reference names; None for nothing, which the validator reports."""
        if not reference.startswith("#/"):
            return self._anchors.get(reference[1:]) if reference != "#" else self._root
        found: Any = self._root
        for part in reference[2:].split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isascii() and name.isdigit():
                found = found[int(name[:6])] if int(name[:6]) < len(found) else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found
