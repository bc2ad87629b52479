"""Example arguments of a tool, made from its schema: what a reader sees and may send at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from ...catalog.view import ListedTool, validator

__all__ = ["sample_arguments"]

_MAX_DEPTH = 8
_MAX_VALUES = 200
_FORMATS = {
    "uri": "https://example.org/",
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "email": "somebody@example.org",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_QUESTIONS = ("query", "question", "q")
"""Names of arguments that hold a request in words; a tool's descriptor has examples of these."""


def sample_arguments(listed: ListedTool) -> dict[str, Any] | None:
    """The required arguments; None where no valid ones are found."""
    sampler = _Sampler(listed.descriptor.input_schema, listed.descriptor.examples)
    found = sampler.value(listed.descriptor.input_schema, "", 0)
    try:
        # A validator of its own: that of the tool would stay in memory, also if nobody calls it.
        valid = isinstance(found, dict) and validator(listed.descriptor.input_schema).is_valid(
            found
        )
    except ValueError:  # the validator's limit of nesting
        valid = False
    return found if valid else None


class _Sampler:
    def __init__(self, root: Mapping[str, Any], requests: Sequence[str]) -> None:
        self._root = root
        self._requests = requests
        self._left = _MAX_VALUES

    def value(self, schema: Any, name: str, depth: int) -> Any:
        """A value for the argument `name`; None where nothing is known of it."""
        self._left -= 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._left < 0:
            return None
        if isinstance(schema.get("$ref"), str):
            return self.value(self._resolved(schema["$ref"]), name, depth + 1)
        for key in ("examples", "enum"):
            if isinstance(schema.get(key), list) and schema[key]:
                return schema[key][0]
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("anyOf", "oneOf"):
            parts = schema.get(key)
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict) and part.get("type") != "null":
                    return self.value(part, name, depth + 1)
        kinds = schema.get("type")
        kind = next((k for k in kinds if k != "null"), None) if isinstance(kinds, list) else kinds
        match kind:
            case "string":
                return self._text(schema, name)
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return False
            case "array":
                return [self.value(schema.get("items"), name, depth + 1)]
            case "object":
                return self._object(schema, depth)
        return None

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        required = schema.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list):
            return {}
        return {
            name: self.value(properties.get(name), name, depth + 1)
            for name in required
            if isinstance(name, str)
        }

    def _text(self, schema: Mapping[str, Any], name: str) -> str:
        if name in _QUESTIONS and self._requests:
            return self._requests[0]
        if name in ("url", "urls"):
            return _FORMATS["uri"]
        return _FORMATS.get(str(schema.get("format")), name or "text")

    def _resolved(self, reference: str) -> Any:
        found: Any = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found
