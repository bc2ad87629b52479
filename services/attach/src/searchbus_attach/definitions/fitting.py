"""Whether an answer fits the output schema of its tool, where that is found out in a few steps.

The server writes both the schema and the answer, and the check holds the loop, which nobody can
end: a pattern that tries many ways takes 60 ms for one short text, and an answer has thousands.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs

__all__ = ["Fitting"]

MAX_STEPS = 1_000_000
"""Parts of the schema times parts of the answer, about; they take a tenth of a second at most."""
_CHARS_A_STEP = 64
_LINEAR = jsonschema_rs.RegexOptions()
"""Takes no pattern that looks around or back, whose time is not linear in the text."""


class Fitting:
    """One output schema, which is valid."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._validator: jsonschema_rs.Validator | None = None
        self._parts, _ = _size(schema, MAX_STEPS)
        self._patterns = _patterns(schema)
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                schema, offline=True, pattern_options=_LINEAR
            )
        except ValueError:
            return  # nothing is known of any answer

    def is_missed(self, answer: Any) -> bool:
        """Whether an answer is known not to fit; False where that would take long."""
        if self._validator is None:
            return False
        values, chars = _size(answer, MAX_STEPS // self._parts)
        steps = self._parts * (values + chars // _CHARS_A_STEP) + self._patterns * chars
        return steps <= MAX_STEPS and not self._validator.is_valid(answer)


def _size(value: Any, most: int) -> tuple[int, int]:
    """How many values it has, counted a little beyond `most`, and characters of names and texts."""
    values = chars = 0
    left = [value]
    while left and values <= most:
        values += 1
        one = left.pop()
        if isinstance(one, str):
            chars += len(one)
        elif isinstance(one, dict):
            left += one.values()
            chars += sum(map(len, one))
        elif isinstance(one, list):
            left += one
    return values, chars


def _patterns(schema: Any) -> int:
    """How many patterns it has, or could have."""
    found = 0
    left = [schema]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            named = one.get("patternProperties")
            found += ("pattern" in one) + (len(named) if isinstance(named, dict) else 0)
            left += one.values()
        elif isinstance(one, list):
            left += one
    return found
