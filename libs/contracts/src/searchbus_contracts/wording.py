"""msgspec's errors in the words of this project: the field, what is wrong, and what to send.

    "Expected `int` <= 9 - at `$.inner.count`"
    "inner.count is out of its limits. Give an integer of at most 9."

No value is quoted: a failure goes to logs and to other services.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect

__all__ = ["worded"]

_AT = re.compile(r" - at `(?:key` in `)?\$\.?(?P<path>.*)`$", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<kinds>[^`]+)`(?P<limit>.*?)(?:, got `(?P<given>\w+)`)?$")
_KINDS = {
    "int": "an integer", "float": "a number", "str": "a string", "bool": "true or false",
    "array": "a list", "object": "an object", "null": "null",
}  # fmt: skip
_UNITS = {"array": "items", "str": "characters", "object": "fields"}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_MAX_NAME_CHARS = 80


def worded(error: msgspec.MsgspecError, kind: Any) -> str:
    """What is wrong, with which field, and what to send instead, in two sentences.

    Args:
        kind: the type that the value should have had, for the values that a field may have.
    """
    text = str(error)
    at = _AT.search(text)
    path = at["path"] if at else ""
    what = _AT.sub("", text)
    field = path[:_MAX_NAME_CHARS] or "The value"
    if named := re.fullmatch(r"Object missing required field `(.+)`", what):
        return f"{_inner(path, named[1])} is missing. Give it."
    if named := re.fullmatch(r"Object contains unknown field `(.+)`", what, re.DOTALL):
        return f"{_inner(path, named[1])} is unknown. Leave it out."
    if what.startswith("Invalid "):  # an enum's value, a date, a tag
        allowed = _allowed(kind, re.sub(r"\[\d+\]", "[...]", path))
        advice = f"Give one of: {allowed}." if allowed else "Give one that its description names."
        return f"{field} has a value that is not allowed. {advice}"
    if expected := _EXPECTED.fullmatch(what):
        kinds = expected["kinds"].split(" | ")
        wanted = " or ".join(_KINDS.get(name, name) for name in kinds)
        given = expected["given"]
        wrong = f"is {_KINDS.get(given, given)}" if given else "is out of its limits"
        return f"{field} {wrong}. Give {wanted}{_limit(expected['limit'], kinds[0])}."
    if what == "Input data was truncated":
        return "The JSON is truncated. Send the whole of it."
    if malformed := re.fullmatch(r"JSON is malformed: (.*)", what):
        return f"The JSON is malformed: {malformed[1]}. Send valid JSON."
    return f"{field}: {what[:1].lower()}{what[1:]}. Give another value."


def _inner(path: str, name: str) -> str:
    return f"{path}.{name}"[-_MAX_NAME_CHARS:] if path else name[:_MAX_NAME_CHARS]


def _limit(text: str, kind: str) -> str:
    """` of at most 5 characters` of ` of length <= 5`."""
    if form := re.fullmatch(r" matching regex '(.*)'", text):
        return f" of the form {form[1]}"
    bound = re.fullmatch(r"( of length)? ([<>]=?) (.*)", text)
    if bound is None:
        return text
    unit = f" {_UNITS.get(kind, 'items')}" if bound[1] else ""
    return f" of {_BOUNDS[bound[2]]} {bound[3].removesuffix('.0')}{unit}"


@lru_cache(maxsize=256)
def _allowed(kind: Any, path: str) -> str:
    """The values that the field at a path may have; empty where they are not listed."""
    types = [inspect.type_info(kind)]
    for name in re.findall(r"\[\.\.\.\]|[^.\[\]]+", path):
        types = [inner for one in types for inner in _below(_choices(one), name)]
    values: list[Any] = []
    for one in (choice for found in types for choice in _choices(found)):
        if isinstance(one, inspect.LiteralType):
            values += one.values
        elif isinstance(one, inspect.EnumType):
            values += [member.value for member in one.cls]
    return ", ".join('""' if value == "" else str(value) for value in values)


def _choices(found: inspect.Type) -> list[inspect.Type]:
    if isinstance(found, inspect.Metadata):
        return _choices(found.type)
    if isinstance(found, inspect.UnionType):
        return [choice for one in found.types for choice in _choices(one)]
    return [found]


def _below(choices: list[inspect.Type], name: str) -> list[inspect.Type]:
    """The types of a field, or of the items of a list or an object."""
    found: list[inspect.Type] = []
    for one in choices:
        if isinstance(one, inspect.StructType):
            found += [field.type for field in one.fields if field.encode_name == name]
        elif isinstance(one, inspect.DictType):
            found.append(one.value_type)
        elif isinstance(one, inspect.ListType | inspect.VarTupleType | inspect.SetType):
            found.append(one.item_type)
    return found
