"""JSON Schemas of servers: of any draft to 2020-12, which the edge and its clients use.

Older drafts say some things in another way: a tuple is `items` with a list, `exclusiveMinimum` a
boolean. Only keywords are changed, never a property of that name or a value of `enum`; where one of
these hides text, the schema is refused. A pattern that takes long to compile is left out
(patterns.py): the server checks it itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from searchbus_contracts.schemas import check_schema

from .patterns import Patterns
from .text import clean, hides_text

__all__ = ["SchemaFault", "modern_schema"]

MAX_DESCRIPTION_CHARS = 2048
_MAX_DEPTH = 64
_SCHEMAS = frozenset({
    "items", "additionalItems", "contains", "additionalProperties", "propertyNames", "not", "if",
    "then", "else", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
})  # fmt: skip
"""Keywords whose value is a schema."""
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_MAPS = frozenset({
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
})  # fmt: skip


class SchemaFault(ValueError):
    """A schema that cannot be listed; the message says why."""


def modern_schema(schema: Any) -> dict[str, Any]:
    """The schema of an object in the terms of 2020-12, checked against its meta-schema.

    Raises:
        SchemaFault: it does not describe an object, refers outside of itself, hides text, or is too
            large.
    """
    if not isinstance(schema, dict):
        raise SchemaFault("it is not an object")
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise SchemaFault(f"its type is {str(kind)[:40]!r}, not 'object'")
    try:
        converted = _convert({**schema, "type": "object"}, 0, Patterns())
        converted.pop("$schema", None)
        check_schema(converted)
        # Validates the schema itself; fetches nothing.
        jsonschema_rs.Draft202012Validator(converted, offline=True)
    except RecursionError:
        raise SchemaFault("its values are nested too deep") from None
    except ValueError as error:
        raise SchemaFault(clean(str(error), 300)) from None
    return converted


def _convert(schema: Mapping[str, Any], depth: int, patterns: Patterns) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise SchemaFault(f"it is nested more than {_MAX_DEPTH} levels deep")
    found: dict[str, Any] = {}
    _check_seen(list(schema))
    for key, value in schema.items():
        if key in ("description", "title", "$comment") and isinstance(value, str):
            found[key] = clean(value, MAX_DESCRIPTION_CHARS)
        elif key == "pattern" and not patterns.keep(value):
            continue
        elif key in _MAPS and isinstance(value, dict):
            if key == "patternProperties" and not all(map(patterns.keep, value)):
                raise SchemaFault("its patternProperties take long to check")
            _check_seen(list(value))
            found[key] = {name: _schema(part, depth + 1, patterns) for name, part in value.items()}
        elif key in _LISTS and isinstance(value, list):
            found[key] = [_schema(part, depth + 1, patterns) for part in value]
        elif key in _SCHEMAS:
            found[key] = _schema(value, depth + 1, patterns)
        else:
            _check_seen(value)
            found[key] = value
    _tuples(found)
    _limits(found)
    _dependencies(found)
    return found


def _schema(part: Any, depth: int, patterns: Patterns) -> Any:
    if isinstance(part, dict):
        return _convert(part, depth, patterns)
    _check_seen(part)  # names, in `dependencies`
    return part


def _check_seen(value: Any) -> None:
    """Raise SchemaFault for a text that nobody sees, in a name or a value of a schema."""
    if isinstance(value, str):
        if hides_text(value):
            raise SchemaFault("it has a name or a value with characters that nobody sees")
    elif isinstance(value, dict):
        _check_seen(list(value))
        _check_seen(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            _check_seen(item)


def _tuples(schema: dict[str, Any]) -> None:
    """`items` as a list, with `additionalItems` for what comes after it."""
    more = schema.pop("additionalItems", None)
    if isinstance(schema.get("items"), list):
        items = schema.pop("items")
        if items:  # an empty list says nothing, and prefixItems must have an element
            schema["prefixItems"] = items
        if more is not None:
            schema["items"] = more


def _limits(schema: dict[str, Any]) -> None:
    """Draft 4: `exclusiveMinimum: true` beside `minimum`."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        given = schema.get(exclusive)
        if isinstance(given, bool):
            del schema[exclusive]
        if given is True and limit in schema:
            schema[exclusive] = schema.pop(limit)


def _dependencies(schema: dict[str, Any]) -> None:
    """Until draft 7 `dependencies` was what two keywords are now."""
    found = schema.pop("dependencies", None)
    if not isinstance(found, dict):
        return
    for name, needed in found.items():
        key = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
        schema.setdefault(key, {})[name] = needed
