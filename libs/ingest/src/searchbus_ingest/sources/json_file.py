"""JSON files: an array of records, as JSON Lines has them, or one document of any shape.

    {"name": "Ann", "places": [{"city": "Oslo"}]}   →   - name: Ann
                                                        - places.0.city: Oslo

A line of a document has the path of its value, so that a passage is understood without the rest.
"""

from __future__ import annotations

import json
from typing import Any

from .item import Reason, SkipError

__all__ = ["json_to_text", "parse_json", "records_of"]

MAX_VALUES = 1_000_000
_RECORD_KEYS = ({"id", "_id"}, {"text", "full_text", "content"})


def parse_json(text: str) -> Any:
    """The value of a whole file.

    Raises:
        SkipError: it is no JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise SkipError(Reason.TOO_COMPLEX, "its values are nested too deeply") from None
    except ValueError as error:
        problem = f"cannot be read: not valid JSON: {getattr(error, 'msg', 'a number is too long')}"
        raise SkipError(Reason.UNREADABLE, problem) from None


def records_of(value: Any) -> list[dict[str, Any]] | None:
    """The records of an array whose first one has an id and a text; None for any other value."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return None
    return value if all(keys & value[0].keys() for keys in _RECORD_KEYS) else None


def json_to_text(value: Any) -> str:
    """One line for each value that is no list and no object.

    Raises:
        SkipError: it has more than 1,000,000 values.
    """
    lines: list[str] = []
    left: list[tuple[str, Any]] = [("", value)]
    count = 0
    while left:
        path, one = left.pop()
        count += 1
        if count > MAX_VALUES:
            problem = f"more than {MAX_VALUES:,} values, the limit of a JSON file; split it"
            raise SkipError(Reason.TOO_LARGE, problem)
        inner = (
            one.items()
            if isinstance(one, dict)
            else enumerate(one)
            if isinstance(one, list)
            else None
        )
        if inner is not None:
            # A long path would repeat itself in every line.
            below = [
                (f"{path}.{key}"[-200:].lstrip(".") if path else str(key)[:200], part)
                for key, part in inner
            ]
            left += reversed(below)
        elif one is not None and one != "":
            shown = one if isinstance(one, str) else json.dumps(one)
            lines.append(f"- {path}: {shown}" if path else shown)
    return "\n".join(lines)
