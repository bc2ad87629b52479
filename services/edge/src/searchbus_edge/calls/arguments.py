"""Checks the arguments of a tool call against the tool's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema_rs import ValidationError, ValidationErrorKind

from searchbus_contracts import ErrorCode, Fault

from ..lists.view import ListedTool

__all__ = ["check_arguments"]

MAX_ERRORS_SHOWN = 3
_MAX_MESSAGE_CHARS = 200
_MAX_NAME_CHARS = 128


def check_arguments(listed: ListedTool, arguments: Mapping[str, Any]) -> None:
    """Validate the arguments against the tool's schema.

    Raises:
        Fault: invalid_argument that names up to three fields with their allowed range.
    """
    if listed.validator.is_valid(arguments):
        return
    lines: list[str] = []
    for error in listed.validator.iter_errors(arguments):
        lines += _lines(error)
        if len(lines) >= MAX_ERRORS_SHOWN:
            break
    raise Fault(ErrorCode.INVALID_ARGUMENT, f"{'; '.join(lines[:MAX_ERRORS_SHOWN])}.")


def _lines(error: ValidationError) -> list[str]:
    """`<field>: what is wrong with it`, for each field of one error."""
    path = [str(part) for part in error.instance_path]
    match error.kind:
        case ValidationErrorKind.Required(property=name):
            return [f"{'.'.join([*path, name])}: is required"]
        case ValidationErrorKind.AdditionalProperties(unexpected=names):
            return [f"{'.'.join([*path, name])[:_MAX_NAME_CHARS]}: is unknown" for name in names]
    message = error.message
    if len(message) > _MAX_MESSAGE_CHARS:  # it repeats the value
        message = "…" + message[-_MAX_MESSAGE_CHARS:]
    return [f"{'.'.join(path) or 'arguments'}: {message}"]
