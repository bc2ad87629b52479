"""Checks the arguments of a tool call against the tool's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema_rs import ValidationError, ValidationErrorKind

from searchbus_contracts import ErrorCode, Fault

from ..lists.view import ListedTool

__all__ = ["check_arguments"]

MAX_ERRORS_SHOWN = 3
_MAX_MESSAGE_CHARS = 200
_MAX_NAME_CHARS = 128
_MAX_VALUES = 200
_MAX_TEXT_CHARS = 20_000
_TOO_MANY = (
    f"arguments: do not fit the tool's schema. Send fewer than {_MAX_VALUES} values to see which"
)


def check_arguments(listed: ListedTool, arguments: Mapping[str, Any]) -> None:
    """Validate the arguments against the tool's schema.

    Raises:
        Fault: invalid_argument that names up to three fields with their allowed range; less where
            the arguments are large.
    """
    try:
        if listed.validator.is_valid(arguments):
            return
        lines = _explained(listed, arguments)
    except ValueError:  # the validator's limit of nesting
        lines = ["arguments: are nested too deeply"]
    raise Fault(ErrorCode.INVALID_ARGUMENT, f"{'; '.join(lines[:MAX_ERRORS_SHOWN])}.")


def _explained(listed: ListedTool, arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with arguments that are not valid.

    The validator makes all errors at once, each with a copy of the value that it is about: for
    many values that would take the square of their number.
    """
    chars = _text_chars(arguments)
    if chars is None:
        return [_TOO_MANY]
    if chars > _MAX_TEXT_CHARS:
        try:
            listed.validator.validate(arguments)
        except ValidationError as first:
            return _lines(first)
    lines: list[str] = []
    for error in listed.validator.iter_errors(arguments):
        lines += _lines(error)
        if len(lines) >= MAX_ERRORS_SHOWN:
            break
    return lines


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


def _lines(error: ValidationError) -> list[str]:
    """`<field>: what is wrong with it`, for each field of one error."""
    path = [str(part) for part in error.instance_path]
    match error.kind:
        case ValidationErrorKind.Required(property=name):
            return [f"{'.'.join([*path, name])}: is required"]
        case ValidationErrorKind.AdditionalProperties(unexpected=names):
            return [
                f"{'.'.join([*path, name])[:_MAX_NAME_CHARS]}: is unknown"
                for name in names[:MAX_ERRORS_SHOWN]
            ]
        case ValidationErrorKind.AnyOf(context=choices):
            nearest = _nearest(path, choices)
            if nearest is not None:
                return nearest
    message = error.message
    if len(message) > _MAX_MESSAGE_CHARS:  # it repeats the value
        message = "…" + message[-_MAX_MESSAGE_CHARS:]
    if isinstance(error.kind, ValidationErrorKind.Enum):
        message = f"is not one of {_listed(error.kind.options)}"
    return [f"{'.'.join(path) or 'arguments'}: {message}"]


def _nearest(path: list[str], choices: Sequence[Sequence[ValidationError]]) -> list[str] | None:
    """What is wrong by the choice that has the value's type; None where several have it.

    `anyOf` with `null` is how many servers write an argument that may be left out.
    """
    others = [_other_types(path, errors) for errors in choices]
    of_type = [errors for errors, types in zip(choices, others, strict=True) if not types]
    if not of_type:
        types = dict.fromkeys(name for names in others for name in names)
        return [f"{'.'.join(path) or 'arguments'}: is not of type {' or '.join(types)}"]
    return [line for e in of_type[0] for line in _lines(e)] if len(of_type) == 1 else None


def _other_types(path: list[str], errors: Sequence[ValidationError]) -> list[str]:
    """The types that the value itself, rather than a part of it, should have had."""
    return [
        name
        for error in errors
        if [str(part) for part in error.instance_path] == path
        and isinstance(error.kind, ValidationErrorKind.Type)
        for name in error.kind.types
    ]


def _listed(options: Sequence[Any]) -> str:
    """The allowed values as JSON, as many as are not too long."""
    texts = [json.dumps(option, ensure_ascii=False) for option in options]
    shown = texts
    while len(shown) > 1 and sum(map(len, shown)) > _MAX_MESSAGE_CHARS:
        shown = shown[:-1]
    more = len(texts) - len(shown)
    text = ", ".join(shown)[:_MAX_MESSAGE_CHARS]
    return f"{text} and {more} others" if more else text
