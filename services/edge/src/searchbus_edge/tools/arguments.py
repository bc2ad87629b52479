"""Checks the arguments of a call against the tool's schema, and says what is wrong with them.

The validator's own list of errors tries every choice of a union at every level: the schema of
blocks that contain blocks took minutes for 237 bytes. Here only the parts that do not fit are
looked at, level by level, and of a union one choice: the one that has the value's type, or the one
whose constants (`"kind": "image"`) are the value's. The validator itself answers only whether a
part fits, which takes time linear in its size. To compile one for a part takes time linear in all
that the part refers to, often the whole schema: it is done once for all parts of one level.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationError, ValidationErrorKind

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.schemas import dict_of, levels, pointer_part, resolved, types_of

from ..catalog.client_schema import has_type
from ..catalog.view import PATTERN_OPTIONS, ListedTool

_MAX_VALUES = 200
_MAX_TEXT_CHARS = 20_000
_TOO_MANY = (
    f"arguments: do not fit the tool's schema. Send fewer than {_MAX_VALUES} values to see which"
)
MAX_LINES = 3
MAX_STEPS = 1_000
"""Questions to the validator; two hundred values need fewer with any schema that people write."""
MAX_COMPILED = 100_000
"""Values of the schema, counted again each time it is compiled: a tenth of a second, about."""
_PATTERN_VALUES = 1_000
"""A pattern takes as long to compile as so many values, at most."""
_MAX_MESSAGE_CHARS = 200
_MAX_NAME_CHARS = 128
_ROOT = "urn:searchbus:arguments"
_ABOUT_OTHERS = frozenset({
    "$id", "$schema", "$anchor", "$dynamicAnchor", "$defs", "definitions", "$ref", "$dynamicRef",
    "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas",
    "dependencies", "items", "prefixItems", "contains", "minContains", "maxContains",
    "propertyNames", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
"""Keywords that are not checked on the value alone: they name other schemas."""
_OF_DIALECTS = ("$schema", "$vocabulary")


def check_arguments(listed: ListedTool, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, repaired and checked by the tool's schema; `given` itself where nothing was
    repaired. Raises Fault(invalid_argument), which names up to three fields with their ranges."""
    try:
        arguments: dict[str, Any] = listed.repair(given)
        if listed.validator.is_valid(arguments):
            return arguments
        lines = _explained(listed, arguments)
    except (ValueError, RecursionError):  # the validator's limit of nesting, and that of the repair
        lines = ["arguments: are nested too deeply"]
    raise Fault(ErrorCode.INVALID_ARGUMENT, f"{'; '.join(lines)}.")


def _explained(listed: ListedTool, arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with arguments that are not valid."""
    chars = _text_chars(arguments)
    if chars is None:
        return [_TOO_MANY]
    explanation = ArgumentExplanation(listed.descriptor.input_schema, PATTERN_OPTIONS)
    explanation.look(arguments)
    # A line about a long value copies it.
    return explanation.lines if chars <= _MAX_TEXT_CHARS else explanation.lines[:1]


def _text_chars(arguments: Mapping[str, Any]) -> int | None:
    """Characters of all keys, texts and integers; None where there are too many values."""
    values: list[Any] = [arguments]
    chars = 0
    for value in values:  # it grows
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, int):
            chars += value.bit_length() // 3
        elif isinstance(value, dict | list):
            if len(values) + len(value) > _MAX_VALUES:
                return None
            values += value.values() if isinstance(value, dict) else value
            chars += sum(map(len, value)) if isinstance(value, dict) else 0
    return chars


class ArgumentExplanation:
    """What is wrong with values that do not fit one schema; raises ValueError (too nested).

    Attributes:
        lines: `<field>: what is wrong with it`, at most `MAX_LINES`.
        steps: how many questions the validator was asked.
        compiled: how many values of schemas were compiled for them, see `MAX_COMPILED`.
    """

    def __init__(
        self, schema: Mapping[str, Any], pattern_options: jsonschema_rs.FancyRegexOptions
    ) -> None:
        self.lines: list[str] = []
        self.steps = self.compiled = 0
        self._root = schema
        self._size = _size(schema)
        self._patterns = pattern_options
        # Another dialect is read as 2020-12, as everywhere; nothing is fetched for it.
        local = {key: part for key, part in schema.items() if key not in _OF_DIALECTS}
        self._registry = jsonschema_rs.Registry([(_ROOT, {**local, "$id": _ROOT})])
        self._validators: dict[str, jsonschema_rs.Validator] = {}
        # By the id of a schema in the root: together they are no larger than the root.
        self._alone: dict[int, jsonschema_rs.Validator] = {}

    def look(self, value: Any, pointer: str = "", path: tuple[str, ...] = ()) -> None:
        """Add a line for each fault of a value that does not fit the schema at the JSON pointer."""
        schema = resolved(f"#{pointer}", self._root)
        before = len(self.lines)
        if isinstance(schema, dict):
            self._look_at_itself(schema, value, path)
            parts = list(self._parts(schema, pointer, value))
            self._compile([part for part, _, _ in parts])
            for part, inner, name in parts:
                if not self._may_ask(part):
                    break
                if not self._fits(part, inner):
                    self.look(inner, part, (*path, *name))
            for keyword in ("anyOf", "oneOf"):
                if isinstance(choices := schema.get(keyword), list) and not self._is_full:
                    self._look_at_choices(f"{pointer}/{keyword}", choices, value, path)
        if len(self.lines) == before:
            self._add(path, "does not fit the tool's schema")

    @property
    def _is_full(self) -> bool:
        return len(self.lines) >= MAX_LINES or self.steps >= MAX_STEPS

    def _add(self, path: Sequence[str], text: str) -> None:
        if len(self.lines) < MAX_LINES:
            self.lines.append(f"{'.'.join(path) or 'arguments'}: {text}")

    def _compile(self, pointers: Sequence[str]) -> None:
        """Compile the schemas at these JSON pointers together, unless enough was compiled."""
        new = [pointer for pointer in pointers if pointer not in self._validators]
        if not new or self._is_full or self.compiled >= MAX_COMPILED:
            return
        self.compiled += self._size
        together = jsonschema_rs.Draft202012Validator(
            {"properties": {pointer: {"$ref": f"{_ROOT}#{pointer}"} for pointer in new}},
            registry=self._registry, offline=True, pattern_options=self._patterns,
        )  # fmt: skip
        self._validators |= dict.fromkeys(new, together)

    def _may_ask(self, pointer: str) -> bool:
        return pointer in self._validators and not self._is_full

    def _fits(self, pointer: str, value: Any) -> bool:
        self.steps += 1
        return self._validators[pointer].is_valid({pointer: value})

    def _look_at_itself(self, schema: Mapping[str, Any], value: Any, path: tuple[str, ...]) -> None:
        """The faults of the value that are none of its parts'."""
        self.steps += 1
        alone = self._alone.get(id(schema))
        if alone is None:
            alone = self._alone[id(schema)] = _alone(schema, self._patterns)
        for error in islice(alone.iter_errors(value), MAX_LINES):
            self.lines = [*self.lines, *_lines(error, path)][:MAX_LINES]

    def _look_at_choices(
        self, pointer: str, choices: Sequence[Any], value: Any, path: tuple[str, ...]
    ) -> None:
        places = [f"{pointer}/{number}" for number in range(len(choices))]
        self._compile(places)
        fitting = 0
        for place in places:
            if not self._may_ask(place):
                return
            fitting += self._fits(place, value)
        if fitting == 1 or (fitting and pointer.endswith("anyOf")):
            return
        if fitting:
            self._add(path, f"fits {fitting} of {len(choices)} forms where it may fit one only")
            return
        each = [self._resolved(place) for place in places]
        types = [types_of(schema) for _, schema in each]
        near = [
            one for one, names in zip(each, types, strict=True)
            if not names or any(has_type(value, name) for name in names)
        ]  # fmt: skip
        if not near:
            named = " or ".join(dict.fromkeys(name for names in types for name in names))
            self._add(path, f"is not of type {named}")
            return
        near = _of_same_constants(near, value)
        if len(near) == 1:
            self.look(value, near[0][0], path)
        else:
            self._add(path, f"fits none of the {len(choices)} forms that the tool's schema allows")

    def _resolved(self, pointer: str) -> tuple[str, Any]:
        """Where a chain of references without other keywords leads, and what is there."""
        seen = set()
        schema = resolved(f"#{pointer}", self._root)
        while isinstance(schema, dict) and set(schema) <= {"$ref", "description", "title"}:
            target = self._target(schema.get("$ref"))
            if target is None or pointer in seen:
                break
            seen.add(pointer)
            pointer = target
            schema = resolved(f"#{pointer}", self._root)
        return pointer, schema

    def _parts(
        self, schema: Mapping[str, Any], pointer: str, value: Any
    ) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
        """(pointer, value, name of the value's part) of all that must fit beside the value."""
        for keyword in ("$ref", "$dynamicRef"):
            if (target := self._target(schema.get(keyword))) is not None:
                yield target, value, ()
        yield from _applied(schema, pointer, value)

    def _target(self, reference: Any) -> str | None:
        """The JSON pointer that a local reference means; None for any other."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        name = reference[1:]
        return name if not name or name.startswith("/") else self._anchors.get(name)

    @cached_property
    def _anchors(self) -> dict[str, str]:
        """Name of an anchor → where it is."""
        found: dict[str, str] = {}
        left: list[tuple[str, Any]] = [("", self._root)]
        while left:
            pointer, part = left.pop()
            if isinstance(part, dict):
                for key in ("$anchor", "$dynamicAnchor"):
                    if isinstance(name := part.get(key), str):
                        found[name] = pointer
                left += ((f"{pointer}/{pointer_part(key)}", value) for key, value in part.items())
            elif isinstance(part, list):
                left += ((f"{pointer}/{number}", value) for number, value in enumerate(part))
        return found


def _applied(
    schema: Mapping[str, Any], pointer: str, value: Any
) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """The subschemas of one schema that must fit the value or its parts."""
    for number in range(len(_list_of(schema, "allOf"))):
        yield f"{pointer}/allOf/{number}", value, ()
    if isinstance(value, dict):
        named = dict_of(schema, "properties")
        others = not dict_of(schema, "patternProperties") and isinstance(
            schema.get("additionalProperties"), dict
        )
        for name, inner in value.items():
            if name in named:
                yield f"{pointer}/properties/{pointer_part(name)}", inner, (name[:_MAX_NAME_CHARS],)
            elif others:
                yield f"{pointer}/additionalProperties", inner, (name[:_MAX_NAME_CHARS],)
    elif isinstance(value, list):
        first = len(_list_of(schema, "prefixItems"))
        for number, inner in enumerate(value):
            if number < first:
                yield f"{pointer}/prefixItems/{number}", inner, (str(number),)
            elif "items" in schema:
                yield f"{pointer}/items", inner, (str(number),)


def _alone(
    schema: Mapping[str, Any], patterns: jsonschema_rs.FancyRegexOptions
) -> jsonschema_rs.Validator:
    """The validator of a schema's keywords that are about the value itself, not about its parts."""
    alone = {key: found for key, found in schema.items() if key not in _ABOUT_OTHERS}
    for key in ("properties", "patternProperties"):  # they say which names are additional
        if key in alone:
            alone[key] = dict.fromkeys(dict_of(schema, key), True)
    if alone.get("additionalProperties") is not False:
        alone.pop("additionalProperties", None)
    return jsonschema_rs.Draft202012Validator(alone, offline=True, pattern_options=patterns)


def _of_same_constants(near: list[tuple[str, Any]], value: Any) -> list[tuple[str, Any]]:
    """The choices whose constants are the value's, where any has some: `"kind": "image"`."""
    if not isinstance(value, dict):
        return near
    agreeing = [one for one in near if (_agreed(one[1], value) or 0) > 0]
    return agreeing or [one for one in near if _agreed(one[1], value) is not None] or near


def _agreed(schema: Any, value: Mapping[str, Any]) -> int | None:
    """How many constants of a choice the value has; None where it has another value for one."""
    count = 0
    named = dict_of(schema, "properties") if isinstance(schema, dict) else {}
    for name, inner in value.items():
        if not isinstance(part := named.get(name), dict):
            continue
        allowed = [part["const"]] if "const" in part else part.get("enum")
        if isinstance(allowed, list):
            if inner not in allowed:
                return None
            count += 1
    return count


def _size(schema: Any) -> int:
    """How many values a schema has, a pattern counted as `_PATTERN_VALUES`."""
    found = 0
    for level in levels(schema):
        for one in level:
            if isinstance(one, dict):
                patterns = isinstance(one.get("pattern"), str)
                found += (patterns + len(dict_of(one, "patternProperties"))) * _PATTERN_VALUES
        found += len(level)
    return found


def _list_of(schema: Mapping[str, Any], key: str) -> Sequence[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else ()


def _lines(error: ValidationError, path: tuple[str, ...]) -> list[str]:
    """`<field>: what is wrong with it`, for each field of one error."""
    match error.kind:
        case ValidationErrorKind.Required(property=name):
            return [f"{'.'.join([*path, name])}: is required"]
        case ValidationErrorKind.AdditionalProperties(unexpected=names):
            return [
                f"{'.'.join([*path, name])[:_MAX_NAME_CHARS]}: is unknown; leave it out"
                for name in names[:MAX_LINES]
            ]
    message = error.message
    if len(message) > _MAX_MESSAGE_CHARS:  # it repeats the value
        message = "…" + message[-_MAX_MESSAGE_CHARS:]
    if isinstance(error.kind, ValidationErrorKind.Enum):
        message = f"is not one of {_listed(error.kind.options)}"
    return [f"{'.'.join(path) or 'arguments'}: {message}"]


def _listed(options: Sequence[Any]) -> str:
    """The allowed values as JSON, as many as are not too long."""
    texts = [json.dumps(option, ensure_ascii=False) for option in options]
    shown = texts
    while len(shown) > 1 and sum(map(len, shown)) > _MAX_MESSAGE_CHARS:
        shown = shown[:-1]
    more = len(texts) - len(shown)
    text = ", ".join(shown)[:_MAX_MESSAGE_CHARS]
    return f"{text} and {more} others" if more else text
