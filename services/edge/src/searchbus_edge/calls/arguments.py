"""Arguments of a tool call: repaired where models often go wrong, then checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..lists.view import ListedTool
from .faults import invalid_params

__all__ = ["check_arguments", "parse_json_strings"]

MAX_ERRORS_SHOWN = 3
_MAX_MESSAGE_CHARS = 200


def parse_json_strings(listed: ListedTool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with arrays and objects that came as JSON in a string parsed.

    Models send these; where the schema wants an array or an object, a string has no other meaning.
    Without such a string, the same object is returned.
    """
    properties = listed.descriptor.input_schema.get("properties")
    if not isinstance(properties, dict):
        return arguments
    parsed: dict[str, Any] = {}
    for name, value in arguments.items():
        if not isinstance(value, str):
            continue
        schema = properties.get(name)
        wanted = schema.get("type") if isinstance(schema, dict) else None
        if wanted not in ("array", "object"):
            continue
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(inner, list if wanted == "array" else dict):
            parsed[name] = inner
    return {**arguments, **parsed} if parsed else arguments


def check_arguments(listed: ListedTool, arguments: Mapping[str, Any]) -> None:
    """Validate the arguments against the tool's schema.

    Raises:
        MCPError: -32602 that names up to three fields with their allowed range.
    """
    if listed.validator.is_valid(arguments):
        return
    lines = []
    for error in listed.validator.iter_errors(arguments):
        path = ".".join(str(part) for part in error.instance_path)
        message = error.message
        if len(message) > _MAX_MESSAGE_CHARS:  # it repeats the value
            message = "…" + message[-_MAX_MESSAGE_CHARS:]
        lines.append(f"{path}: {message}" if path else message)
        if len(lines) == MAX_ERRORS_SHOWN:
            break
    raise invalid_params(f"Invalid arguments for {listed.name}: {'; '.join(lines)}.")
