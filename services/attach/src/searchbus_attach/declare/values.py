"""Values of a table by the types of a Struct; what is wrong is said in the words of the file.

server = converted("files", keys, Server)   # files: 'args' must be a list of texts
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from searchbus_runtime.wording import nearest

from ..faults import DeclarationFault

__all__ = ["converted"]

Kind = TypeVar("Kind", bound=Struct)


def converted(where: str, keys: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """The Struct that a table holds.

    Args:
        where: what the message begins with.

    Raises:
        DeclarationFault: a value is of a wrong type or out of its limits; the message names its
            key, and shows no value that may be secret.
    """
    try:
        return msgspec.convert(keys, kind)
    except msgspec.ValidationError as error:
        raise DeclarationFault(f"{where}: {_wrong(kind, keys, '') or error}") from None


def _wrong(kind: Any, value: Any, path: str) -> str:
    """What is wrong first in a value; empty where nothing is."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        pass
    else:
        return ""
    kind, limits = _bare(kind)
    if isinstance(value, Mapping):
        inner = f"{path}." if path else ""
        if isinstance(kind, type) and issubclass(kind, Struct):
            return _wrong_field(kind, value, inner)
        if kind is dict or get_origin(kind) is dict:
            of = (get_args(kind) or (str, Any))[1]
            found = (_wrong(of, one, f"{inner}{key}") for key, one in value.items())
            return next(filter(None, found), "")
    return f"'{path}' {_expected(kind, limits, value)}"


def _wrong_field(kind: type[Struct], table: Mapping[str, Any], inner: str) -> str:
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if name in table:
            found = _wrong(field.type, table[name], f"{inner}{name}")
        else:
            found = f"'{inner}{name}' is missing; set it" if field.required else ""
        if found:
            return found
    return ""


def _expected(kind: Any, limits: list[Meta], value: Any) -> str:
    """What a value must be, after the name of its key."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        near = nearest(value, choices) if isinstance(value, str) else ""
        # All of them are named already.
        hint = f".{near}" if near.startswith(" Did") else ""
        return f"is {', '.join(choices[:-1])} or {choices[-1]}{hint}"
    if get_origin(kind) is tuple:
        return _expected_list(get_args(kind)[0], limits, value)
    if kind is str:
        return f"must be a text{_length(limits)}{_quotes(value)}"
    if kind is bool:
        return "must be true or false, without quotes"
    if kind in (int, float):
        whole = "a whole number" if kind is int else "a number"
        return f"must be {whole}{_bounds(limits)}{', without quotes' * isinstance(value, str)}"
    return "must be a table"


def _expected_list(item: Any, limits: list[Meta], value: Any) -> str:
    least = next((one.min_length for one in limits if one.min_length), 0)
    text = f"must be a list of texts{_length(_bare(item)[1])}{', with one or more' * bool(least)}"
    for number, one in enumerate(value if isinstance(value, list | tuple) else (), 1):
        if _wrong(item, one, ""):
            return f"{text}; number {number} is not one{_quotes(one)}"
    return text


def _bare(kind: Any) -> tuple[Any, list[Meta]]:
    """A type without its limits and None, and the limits."""
    limits: list[Meta] = []
    while True:
        if get_origin(kind) is Annotated:
            limits += [one for one in kind.__metadata__ if isinstance(one, Meta)]
            kind = kind.__origin__
        elif get_origin(kind) in (Union, UnionType):
            kind = next(one for one in get_args(kind) if one is not type(None))
        else:
            return kind, limits


def _length(limits: list[Meta]) -> str:
    for one in limits:
        if one.max_length is not None:
            least = f"{one.min_length} to " if one.min_length else "at most "
            return f" of {least}{one.max_length} characters"
    return ""


def _bounds(limits: list[Meta]) -> str:
    words = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
    found = [
        f"{word} {getattr(one, key)}"
        for one in limits
        for key, word in words.items()
        if getattr(one, key) is not None
    ]
    return f", {' and '.join(found)}" if found else ""


def _quotes(value: Any) -> str:
    return "; put it into quotes" if isinstance(value, bool | int | float) else ""
