"""Checks the arguments of a tool call against the tool's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from searchbus_contracts import ErrorCode, Fault

from ..catalog.view import PATTERN_OPTIONS, ListedTool
from .explaining import Explanation

__all__ = ["check_arguments"]

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
    raise Fault(ErrorCode.INVALID_ARGUMENT, f"{'; '.join(lines)}.")


def _explained(listed: ListedTool, arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with arguments that are not valid."""
    chars = _text_chars(arguments)
    if chars is None:
        return [_TOO_MANY]
    explanation = Explanation(listed.descriptor.input_schema, PATTERN_OPTIONS)
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
