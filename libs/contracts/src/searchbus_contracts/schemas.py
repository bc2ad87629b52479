"""JSON Schema 2020-12: the one traversal of schemas, and the check of those that others wrote.

    inner = {key: mapped(key, part, change) for key, part in schema.items()}    # schemas in it
    for level in levels(schema): ...                                            # every value
    target = resolved("#/$defs/Node", schema)                                   # a reference

A schema refers to nothing outside of itself, since a reader could fetch it, and validating one
value against it takes a limited number of steps: references to references could double the work
at each level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

DIALECTS = frozenset({
    "https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#",
})  # fmt: skip
MAX_VALUES = 20_000
MAX_DEPTH = 64
MAX_APPLIED = 300
"""Subschemas that apply to one value at once; unions of a hundred kinds stay below."""
MAX_PATTERN_CHARS = 1_000
SCHEMAS = frozenset({
    "items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema",
})  # fmt: skip
"""Keywords whose value is a schema."""
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""
MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is schemas by name."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_IN_PLACE = (
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies",
)  # fmt: skip
"""Keywords whose subschemas apply to the same value as the schema itself."""
_WATCHED = frozenset({*_REFERENCES, *_ANCHORS, "$id", "pattern", "patternProperties"})


def mapped(keyword: str, value: Any, change: Callable[[Any], Any]) -> Any:
    """The value of a keyword with `change` applied to each schema directly in it.

    `change` calls this for its own keywords. What is no schema stays: texts, limits, examples, and
    a property or a value of `enum` that is named like a keyword.

        def without_titles(schema: Any) -> Any:
            if not isinstance(schema, dict):
                return schema
            kept = {key: part for key, part in schema.items() if key != "title"}
            return {key: mapped(key, part, without_titles) for key, part in kept.items()}
    """
    if keyword in MAPS and isinstance(value, dict):
        return {name: change(part) for name, part in value.items()}
    if keyword in LISTS and isinstance(value, list):
        return [change(part) for part in value]
    return change(value) if keyword in SCHEMAS else value


def levels(value: Any) -> Iterator[list[Any]]:
    """Every value in JSON, level by level; a reader that stops early pays for no deeper one."""
    level = [value]
    while level:
        yield level
        following: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                following += one.values()
            elif isinstance(one, list):
                following += one
        level = following


def resolved(reference: str, root: Any) -> Any:
    """What a local reference such as `#/$defs/Node` names; None where it names nothing."""
    start, *path = reference.split("/")
    found = root if start == "#" else None
    for part in path:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isascii() and name.isdigit():
            found = found[int(name[:6])] if int(name[:6]) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found


def pointer_part(name: str) -> str:
    """A name as a part of a JSON pointer; one with % is written as in a reference's fragment."""
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")


def dict_of(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object that is a keyword's value; empty where it has none."""
    found = schema.get(key)
    return found if isinstance(found, dict) else {}


def types_of(schema: Any) -> tuple[str, ...]:
    """The types that the keyword `type` names; none where a schema has no such keyword."""
    named = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(named, str):
        return (named,)
    return tuple(named) if isinstance(named, list) else ()


def foreign_dialect(schema: Mapping[str, Any]) -> str | None:
    """The `$schema` of a schema that is not of 2020-12; it is read as 2020-12 all the same."""
    named = schema.get("$schema")
    return None if named is None or named in DIALECTS else str(named)[:200]


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check a schema's size, references and cost, not its meta-schema; raises ValueError."""
    anchors: dict[str, Any] = {}
    objects = _objects(schema)
    refers = False
    for value in objects:
        for key in _WATCHED.intersection(value):
            refers = refers or key in _REFERENCES
            _check_keyword(key, value, schema, anchors)
    # Without references fewer subschemas apply to a value than there are.
    if refers or len(objects) > MAX_APPLIED:
        known: dict[int, int | None] = {}
        try:
            for value in objects:
                _applied(value, schema, anchors, known)
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
    count = 0
    for depth, level in enumerate(levels(schema)):
        if depth == MAX_DEPTH:
            raise ValueError(f"the schema is nested more than {MAX_DEPTH} levels deep")
        count += len(level)
        if count > MAX_VALUES:
            raise ValueError(f"the schema has over {MAX_VALUES} values")
        found += [value for value in level if isinstance(value, dict)]
    return found


def _applied(
    schema: Any, root: Mapping[str, Any], anchors: Mapping[str, Any], known: dict[int, int | None]
) -> int:
    """How many subschemas apply to one value together with a schema, references followed; `known`:
    by `id`, None while it is counted. Raises ValueError: too many, or without end."""
    if not isinstance(schema, dict):
        return 1
    if (key := id(schema)) in known:
        found = known[key]
        if found is None:
            raise ValueError("the schema refers to itself without end")
        return found
    known[key] = None
    parts = _parts(schema, root, anchors)
    total = 1 + sum(_applied(part, root, anchors, known) for part in parts)
    if total > MAX_APPLIED:
        raise ValueError(f"over {MAX_APPLIED} parts of the schema apply to one value")
    known[key] = total
    return total


def _parts(
    schema: Mapping[str, Any], root: Mapping[str, Any], anchors: Mapping[str, Any]
) -> Iterator[Any]:
    """The schemas that apply to the same value as a schema does."""
    for key in _IN_PLACE:
        found = schema.get(key)
        if isinstance(found, dict):
            yield from [found] if key in SCHEMAS else found.values()
        elif isinstance(found, list):
            yield from found
        elif found is not None:
            yield found
    for key in _REFERENCES:
        if isinstance(reference := schema.get(key), str):
            # What names nothing is reported by the validator.
            local = reference == "#" or reference.startswith("#/")
            yield resolved(reference, root) if local else anchors.get(reference[1:])
