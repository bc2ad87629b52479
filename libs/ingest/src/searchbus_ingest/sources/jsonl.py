"""JSON Lines: one object a document.

Keys: `id` or `_id`; `title`; `text`, `full_text` or `content`; `url` or `source_url`. Every other
key with a string, number or boolean is metadata. A faulty line is reported with its number and
skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from searchbus_contracts.retrieval import Metadata

from .item import Item, make_document

__all__ = ["read_jsonl"]

_ID = ("id", "_id")
_TEXT = ("text", "full_text", "content")
_URL = ("url", "source_url")
_MAX_LINE_BYTES = 128 * 1024 * 1024


def read_jsonl(path: Path, collection: str) -> Iterator[Item]:
    """Every line of the file as an item, in order."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _read_line(f"{path.name}:{number}", line, collection)


def _read_line(origin: str, line: bytes, collection: str) -> Item:
    if len(line) > _MAX_LINE_BYTES:
        return Item(origin, problem="the line is larger than 128 MiB")
    try:
        row = json.loads(line)
    except UnicodeDecodeError:
        return Item(origin, problem="not valid UTF-8")
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "nested too deeply")
        return Item(origin, problem=f"not valid JSON: {reason}")
    if not isinstance(row, dict):
        return Item(origin, problem="not a JSON object")
    key, source_id = _first(row, _ID)
    if not isinstance(source_id, str | int) or isinstance(source_id, bool) or source_id == "":
        return Item(origin, problem='"id" is missing (a string or a whole number)')
    text_key, text = _first(row, _TEXT)
    if not isinstance(text, str):
        return Item(origin, problem='"text" is missing (a string)')
    title = row.get("title")
    url_key, url = _first(row, _URL)
    used = {key, text_key, url_key, "title"}
    metadata: Metadata = {
        name: value
        for name, value in row.items()
        if name not in used and _is_scalar(value) and name.isidentifier() and name.isascii()
        and len(name) <= 64
    }  # fmt: skip
    return make_document(
        origin,
        collection=collection,
        source_id=str(source_id)[:400],
        title=title if isinstance(title, str) and title.strip() else str(source_id),
        text=text,
        url=url if isinstance(url, str) else None,
        metadata=metadata,
    )


def _first(row: dict[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    for name in names:
        if name in row:
            return name, row[name]
    return names[0], None


def _is_scalar(value: Any) -> bool:
    if isinstance(value, float):
        return value == value and abs(value) != float("inf")
    if isinstance(value, int):
        return abs(value) < 2**62
    return isinstance(value, str) and len(value) <= 2000
