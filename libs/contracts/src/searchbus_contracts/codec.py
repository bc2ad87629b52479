"""JSON of the wire, by msgspec (proto/README.md §3).

Decoding raises `Fault(invalid_argument)` and nothing else for any bytes: msgspec itself also raises
UnicodeDecodeError and RecursionError.

msgspec 0.22 learns the fields of a Struct when one is decoded for the first time, and meanwhile
other threads see half of them: the process ends by a segmentation fault. So types are learned here,
one after the other. Threads decode and convert with this module only.

The messages name the field, what is wrong, and what to send. They quote no value: a failure goes to
logs and to other services.

    "Expected `int` <= 9 - at `$.inner.count`"
    "inner.count is out of its limits. Give an integer of at most 9."
"""

from __future__ import annotations

import math
import re
import threading
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from .errors import ErrorCode, Fault

T = TypeVar("T")
_learning = threading.Lock()
_encoder = msgspec.json.Encoder()
_canonical = msgspec.json.Encoder(order="deterministic")
_MAX_DIGITS = 20
"""As many as 64 bits need. The time to decode an integer grows with the square of its digits."""
_AS_DIGITS = bytes(ord("1" if chr(byte).isdigit() else " ") for byte in range(128)) + b" " * 128
_TOO_LONG = b"1" * (_MAX_DIGITS + 1)
# Possessive: each byte is looked at once. A number with a fraction or an exponent is no integer.
_UP_TO_LONG = re.compile(
    rb'(?:[^"0-9]++|"(?:[^"\\]++|\\.)*+"|[0-9]++(?:\.[0-9]++(?:[eE][+-]?+[0-9]++)?+|[eE][+-]?+[0-9]++)'
    rb"|[0-9]{1,%d}+(?![0-9]))*+" % _MAX_DIGITS,
    re.DOTALL,
)
_NUMBERS = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"|[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+', re.DOTALL
)
# msgspec takes the end of the text for the missing half.
_HALF_AT_END = re.compile(
    rb"(?<!\\)(?:\\\\)*+\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u|\\\Z).{1,5}\Z", re.DOTALL
)
_HALF = r"The JSON has half of a surrogate pair, such as \ud800. Leave it out."
_FIELD = re.compile(rb'"([A-Za-z0-9_.-]{1,80})"\s*:\s*-?\Z')


def doc(text: str, **limits: Any) -> msgspec.Meta:
    """The description of a field, which its schema shows, with the limits of `msgspec.Meta`.

    limit: Annotated[int, doc("How many matches.", ge=1, le=100)] = 10
    """
    return msgspec.Meta(description=text, **limits)


def encode(message: Any) -> bytes:
    """Encode a message as compact JSON."""
    return _encoder.encode(message)


def canonical(message: Any) -> bytes:
    """Encode with sorted keys, so that equal values have equal bytes (for hashes)."""
    return _canonical.encode(message)


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    with _learning:
        return msgspec.json.Decoder(kind)


def long_integer(data: bytes) -> str | None:
    """Why JSON is refused that has an integer of more than 20 digits; None where it has none.

    It takes about a millisecond a megabyte, and up to 60 where 21 digits stand in a row. Call it
    before JSON from outside is decoded.
    """
    if _TOO_LONG not in data.translate(_AS_DIGITS):
        return None
    end = _UP_TO_LONG.match(data).end()  # type: ignore[union-attr]  # it also matches nothing
    if not data[end : end + 1].isdigit():
        return None  # in a string, in a fraction, or not JSON
    where = _place(data, end, "int")
    return f"{where} has more than {_MAX_DIGITS} digits. Send a smaller one, or a string."


def _place(data: bytes, start: int, kind: str) -> str:
    """`The integer in count`, of one that stands behind its field; else `An integer`."""
    field = _FIELD.search(data, max(0, start - 128), start)
    name = _KINDS[kind]
    return f"The {name.split()[1]} in {field[1].decode()}" if field else name.capitalize()


def decode(data: bytes, kind: type[T]) -> T:
    """Decode JSON into `kind`, checking types and limits; unknown fields are ignored. Raises
    Fault(invalid_argument) naming the field and what to send."""
    if refused := long_integer(data):
        raise Fault(ErrorCode.INVALID_ARGUMENT, refused)
    try:
        decoded: T = _decoder(kind).decode(data)  # type: ignore[arg-type]  # classes are hashable
        return decoded
    except msgspec.MsgspecError as error:
        message = _in_text(str(error), data) or worded(error, kind)
        raise Fault(ErrorCode.INVALID_ARGUMENT, message) from None
    except RecursionError:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT, "The JSON is nested too deeply. Send flatter JSON."
        ) from None
    except ValueError:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT, "The message is not valid UTF-8. Send UTF-8."
        ) from None


def _in_text(error: str, data: bytes) -> str | None:
    """What is wrong, where only the text shows it; None where the error says it."""
    if error == "Input data was truncated" and _HALF_AT_END.search(data):
        return _HALF
    if error.startswith("Number out of range"):  # its path has no names within `Any`
        for found in _NUMBERS.finditer(data):
            if found[0][:1] != b'"' and float(found[0]) == math.inf:
                where = _place(data, found.start(), "float")
                return f"{where} is beyond 1e308. Send a smaller one, or a string."
    return None


def convert(value: Any, kind: type[T]) -> T:
    """JSON values as `kind`; raises msgspec.ValidationError where they do not fit."""
    _decoder(kind)  # type: ignore[arg-type]  # knows the type from now on
    return msgspec.convert(value, kind)


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
    """What is wrong, with which field, and what to send instead (of `kind`), in two sentences."""
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
        if what.startswith("Invalid RFC3339"):
            advice = f"Give one such as 2024-01-31{'T12:00:00Z' if what.endswith('time') else ''}."
        return f"{field} has a value that is not allowed. {advice}"
    if expected := _EXPECTED.fullmatch(what):
        kinds = expected["kinds"].split(" | ")
        wanted = " or ".join(_KINDS.get(name, name) for name in kinds)
        given = expected["given"]
        wrong = f"is {_KINDS.get(given, given)}" if given else "is out of its limits"
        return f"{field} {wrong}. Give {wanted}{_limit(expected['limit'], kinds[0])}."
    if what == "Input data was truncated":
        return "The JSON is truncated. Send the whole of it."
    if re.search("surrogate pair|end of hex escape", what):
        return _HALF
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
