"""JSON that others wrote."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

T = TypeVar("T")


def read_json(text: bytes | str, kind: type[T]) -> T:
    """Decode JSON; NaN, and one half of a character, as a cut escape leaves it, cost no more.

    Raises:
        ValueError, RecursionError: it is not JSON, or not of this kind.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        lenient = json.loads(text, parse_constant=lambda _: None)
        whole = json.dumps(lenient, ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.decode(whole, type=kind)
