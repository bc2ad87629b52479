"""JSON Schemas of servers: of any draft to 2020-12, which the edge and its clients use.

Older drafts say some things in another way: a tuple is `items` with a list, `exclusiveMinimum` a
boolean. Only keywords are changed, never a property of that name or a value of `enum`; where one of
these hides text, the schema is refused. A pattern that takes long to compile is left out: the
server checks it itself. One that repeats a large class of characters takes 50 ms and megabytes, and
a server may send thousands, which every reader of the list would compile.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import jsonschema_rs

from searchbus_contracts.schemas import (
    LISTS,
    MAPS,
    MAX_DEPTH,
    MAX_PATTERN_CHARS,
    SCHEMAS,
    check_schema,
    levels,
    mapped,
)

from .text import clean, hides_text

MAX_DESCRIPTION_CHARS = 2048
MAX_PATTERNS = 64
"""Patterns of one schema."""
_SHORT_PATTERN_CHARS = 40
_SMALL = jsonschema_rs.FancyRegexOptions(size_limit=256 * 1024)
"""The limit of a compiled pattern in bytes; it takes a millisecond at most."""
_TEXTS = frozenset({"description", "title", "$comment"})


class SchemaError(ValueError):
    """A schema that cannot be listed; the message says why."""


def modern_schema(schema: Any) -> dict[str, Any]:
    """The schema of an object in the terms of 2020-12, checked against its meta-schema.

    Raises:
        SchemaError: it does not describe an object, refers outside of itself, hides text, or is too
            large.
    """
    if not isinstance(schema, dict):
        raise SchemaError("it is not an object")
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise SchemaError(f"its type is {str(kind)[:40]!r}, not 'object'")
    try:
        converted = _Conversion().schema({**schema, "type": "object"})
        converted.pop("$schema", None)
        check_schema(converted)
        # Validates the schema itself; fetches nothing.
        jsonschema_rs.Draft202012Validator(converted, offline=True)
    except RecursionError:
        raise SchemaError("its values are nested too deep") from None
    except ValueError as error:
        raise SchemaError(clean(str(error), 300)) from None
    return converted


class _Conversion:
    """Converts one schema and those in it."""

    def __init__(self) -> None:
        self._patterns_left = MAX_PATTERNS

    def schema(self, schema: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            raise SchemaError(f"it is nested more than {MAX_DEPTH} levels deep")

        def inner(part: Any) -> Any:
            if isinstance(part, dict):
                return self.schema(part, depth + 1)
            _check_seen(part)
            return part

        found: dict[str, Any] = {}
        _check_seen(list(schema))
        for key, value in _in_terms_of_2020(schema).items():
            if key in _TEXTS and isinstance(value, str):
                found[key] = clean(value, MAX_DESCRIPTION_CHARS)
            elif key == "pattern" and not self._keeps(value):
                continue
            elif key in MAPS and isinstance(value, dict):
                if key == "patternProperties" and not all(map(self._keeps, value)):
                    raise SchemaError("its patternProperties take long to check")
                _check_seen(list(value))
                found[key] = mapped(key, value, inner)
            elif key in SCHEMAS or (key in LISTS and isinstance(value, list)):
                found[key] = mapped(key, value, inner)
            else:
                _check_seen(value)
                found[key] = value
        return found

    def _keeps(self, pattern: object) -> bool:
        """Whether a pattern stays. What is not a pattern stays as well, for the meta-schema."""
        if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_CHARS:
            return True
        self._patterns_left -= 1
        return self._patterns_left >= 0 and _is_cheap(pattern)


@lru_cache(maxsize=4096)
def _is_cheap(pattern: str) -> bool:
    if len(pattern) <= _SHORT_PATTERN_CHARS and "{" not in pattern:
        return True
    try:
        jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=_SMALL, offline=True
        )
    except ValueError:
        return False
    return True


def _in_terms_of_2020(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a schema, not of those in it, as 2020-12 has them."""
    found = dict(schema)
    # A tuple was `items` with a list, and `additionalItems` what comes after it.
    more = found.pop("additionalItems", None)
    if isinstance(found.get("items"), list):
        items = found.pop("items")
        if items:  # an empty list says nothing, and prefixItems must have an element
            found["prefixItems"] = items
        if more is not None:
            found["items"] = more
    # Draft 4: `exclusiveMinimum: true` beside `minimum`.
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        given = found.get(exclusive)
        if isinstance(given, bool):
            del found[exclusive]
        if given is True and limit in found:
            found[exclusive] = found.pop(limit)
    # Until draft 7 `dependencies` was what two keywords are now.
    dependencies = found.pop("dependencies", None)
    if isinstance(dependencies, dict):
        for name, needed in dependencies.items():
            key = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
            known = found.get(key)
            found[key] = {**(known if isinstance(known, dict) else {}), name: needed}
    return found


def _check_seen(value: Any) -> None:
    """Raise SchemaError for a text that nobody sees, in a name or a value of a schema."""
    for level in levels(value):
        for one in level:
            texts = [one] if isinstance(one, str) else one if isinstance(one, dict) else ()
            if any(map(hides_text, texts)):
                raise SchemaError("it has a name or a value with characters that nobody sees")


def chars_of(level: list[Any]) -> int:
    """How many characters the texts and the names of values have, without what is inside them."""
    return sum(
        len(one) if isinstance(one, str) else sum(map(len, one)) if isinstance(one, dict) else 0
        for one in level
    )


MAX_STEPS = 1_000_000
"""Parts of the schema times parts of the answer, about; they take a tenth of a second at most."""
_CHARS_A_STEP = 64
_LINEAR = jsonschema_rs.RegexOptions()
"""Takes no pattern that looks around or back, whose time is not linear in the text."""


class Fitting:
    """Whether answers fit an output schema, which is valid, where a few steps tell.

    The server writes both the schema and the answer, and the check holds the loop, which nobody can
    end: a pattern that tries many ways takes 60 ms for one short text, and an answer has thousands.

    Attributes:
        missed: whether an answer was seen that does not fit.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self.missed = False

    def is_missed(self, answer: Any) -> bool:
        """Whether an answer is known not to fit; False where that would take long."""
        if self._validator is None:
            return False
        values, chars = _size(answer, MAX_STEPS // self._parts)
        steps = self._parts * (values + chars // _CHARS_A_STEP) + self._patterns * chars
        return steps <= MAX_STEPS and not self._validator.is_valid(answer)

    @cached_property
    def _parts(self) -> int:
        return _size(self.schema, MAX_STEPS)[0]

    @cached_property
    def _patterns(self) -> int:
        return sum(map(_patterns, levels(self.schema)))

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator | None:
        try:
            return jsonschema_rs.Draft202012Validator(
                self.schema, offline=True, pattern_options=_LINEAR
            )
        except ValueError:
            return None  # nothing is known of any answer


def _size(value: Any, most: int) -> tuple[int, int]:
    """How many values it has, counted until there are more than `most`, and characters."""
    values = chars = 0
    for level in levels(value):
        values += len(level)
        chars += chars_of(level)
        if values > most:
            break
    return values, chars


def _patterns(level: list[Any]) -> int:
    """How many patterns some schemas have, or could have."""
    found = 0
    for one in level:
        if isinstance(one, dict):
            named = one.get("patternProperties")
            found += ("pattern" in one) + (len(named) if isinstance(named, dict) else 0)
    return found
