"""Results as a view shapes them: fields kept, rows limited, a budget of tokens with the rest apart.

Fields are names with dots, through lists: `results.title` keeps the titles of all results. A limit
of rows is for every list that is a field of the result. A result without structured content whose
text is JSON is shaped in the same way; of any other text, the budget keeps the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from searchbus_contracts import Fault, TextContent, ToolReply, decode, encode
from searchbus_passages import MAX_CHARS_PER_TOKEN, Ruler, fit_count, holds

from ..declare.views import Shape

_NOTE_TOKENS = 120
"""For the words that say where the rest is."""


class Shaped(NamedTuple):
    """A reply within its budget, and the text that did not fit; empty where all did."""

    reply: ToolReply
    rest: str = ""


def shaped(reply: ToolReply, shape: Shape) -> Shaped:
    """Shape a reply; an error stays as it is."""
    if reply.is_error:
        return Shaped(reply)
    value = _value(reply)
    if value is not None and (shape.fields or shape.max_rows):
        if shape.fields:
            value = _kept(value, _tree(shape.fields))
        if shape.max_rows:
            value = _limited(value, shape.max_rows)
        reply = _with_value(reply, value)
    if not shape.max_tokens or holds(_shown(reply, value), shape.max_tokens):
        return Shaped(reply)
    most = max(1, shape.max_tokens - _NOTE_TOKENS)
    fitted = None if value is None else _fitted(value, most)
    if fitted is not None:
        value, rest = fitted
        return Shaped(_with_value(reply, value), rest)
    # Structured content that cannot be cut by rows is shown as the beginning of its text.
    text = _text(reply) if value is None else encode(value).decode()
    end = page_end(text, 0, most)
    first = TextContent(text=text[:end])
    others = [block for block in reply.content if not isinstance(block, TextContent)]
    reply = msgspec.structs.replace(reply, content=(first, *others), structured=None)
    return Shaped(reply, text[end:])


def page_end(text: str, start: int, tokens: int) -> int:
    """The end of the part of a text from `start` with at most so many tokens: of whole lines."""
    part = text[start : start + MAX_CHARS_PER_TOKEN * (tokens + 1)]
    end = start + max(1, Ruler(part).reach(0, tokens))
    if end >= len(text):
        return len(text)
    line_end = text.rfind("\n", start, end) + 1
    return line_end if line_end > start else end


def _value(reply: ToolReply) -> Any:
    """The structured content, or what the only text says as JSON; None where there is neither."""
    if reply.structured is not None:
        return reply.structured
    text = _text(reply)
    if text[:1] not in ("{", "["):
        return None
    try:
        return decode(text.encode(), Any)
    except Fault:  # not JSON
        return None


def _text(reply: ToolReply) -> str:
    return "\n".join(block.text for block in reply.content if isinstance(block, TextContent))


def _with_value(reply: ToolReply, value: Any) -> ToolReply:
    """The reply with another value, also as its text."""
    others = [block for block in reply.content if not isinstance(block, TextContent)]
    content = (TextContent(text=encode(value).decode()), *others)
    structured = value if reply.structured is not None else None
    return msgspec.structs.replace(reply, content=content, structured=structured)


def _shown(reply: ToolReply, value: Any) -> bytes:
    """What a model reads of it."""
    return _text(reply).encode() if value is None else encode(value)


def _tree(fields: tuple[str, ...]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for field in fields:
        inner = root
        for name in field.split("."):
            inner = inner.setdefault(name, {})
    return root


def _kept(value: Any, tree: Mapping[str, Any]) -> Any:
    """The value with these fields only; a field without further names is kept whole."""
    if not tree:
        return value
    if isinstance(value, list):
        return [_kept(one, tree) for one in value]
    if isinstance(value, dict):
        return {name: _kept(one, tree[name]) for name, one in value.items() if name in tree}
    return value


def _limited(value: Any, most: int) -> Any:
    if isinstance(value, list):
        return value[:most]
    if isinstance(value, dict):
        return {k: one[:most] if isinstance(one, list) else one for k, one in value.items()}
    return value


def _fitted(value: Any, most: int) -> tuple[Any, str] | None:
    """The value with as many rows of its longest list as fit, and the other rows, one a line.

    None where not even one row fits, or there is no list.
    """
    if isinstance(value, list):
        rows, frame = value, None
    else:
        lists = {k: one for k, one in value.items() if isinstance(one, list)}
        if not lists:
            return None
        frame = max(lists, key=lambda name: len(encode(lists[name])))
        rows = lists[frame]

    def first(kept: int) -> Any:
        return rows[:kept] if frame is None else {**value, frame: rows[:kept]}

    kept = fit_count(len(rows), most, lambda kept: encode(first(kept)))
    if kept == 0:
        return None
    return first(kept), "\n".join(encode(row).decode() for row in rows[kept:])
