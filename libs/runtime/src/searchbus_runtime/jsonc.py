"""JSON with comments and last commas, as desktop programs keep it in their settings.

parse(text)                                              # the value
with_member(text, ("mcpServers", "files"), {...})        # the text with this member, added or new
without_member(text, ("mcpServers", "files"))

What a person wrote beside the changed member stays: comments, order, indentation, line ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_TOKEN = re.compile(
    # A text: nothing in it is a comment. Without its end it takes the rest, as a comment does: who
    # tries again at each character needs the square of their number.
    r'"(?:[^"\\]++|\\.)*+"?'
    r"|//[^\r\n]*|/\*.*?\*/|(?P<open>/\*.*)"
    r'|\s+|[^\s"/,:{}\[\]]+|.',
    re.DOTALL,
)
_NOT_AFTER = frozenset({"", ",", ":", "[", "{"})
_SPACE = re.compile(r"\s*")
_COMMENT = ("//", "/*")
_DECODER = json.JSONDecoder()


class JsonTextError(ValueError):
    """A text that is not JSON, or that cannot be changed; the message has the line."""


class _Member(NamedTuple):
    """Where a member of an object is in the text: its name, its value and their end."""

    name: str
    start: int
    value: int
    end: int


def without_comments(text: str) -> str:
    """The text as JSON, if it is nothing worse; each character stays in its line and column, so
    that an error of the parser names the right place.
    """
    parts: list[str] = []
    comma = 0
    before, last = "", ""
    for found in _TOKEN.finditer(text):
        part = found[0]
        if part.startswith(_COMMENT) and found["open"] is None:
            parts.append(re.sub(r"[^\r\n]", " ", part))
            continue
        parts.append(part)
        if part.isspace():
            continue
        if part in ("}", "]") and last == "," and before not in _NOT_AFTER:
            parts[comma] = " "
        if part == ",":
            comma = len(parts) - 1
        before, last = last, part
    return "".join(parts)


def parse(text: str) -> Any:
    """The value of a text; raises JsonTextError (not JSON, or too deep)."""
    try:
        return json.loads(without_comments(text))
    except json.JSONDecodeError as error:
        raise JsonTextError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise JsonTextError(f"it cannot be read ({type(error).__name__})") from None


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """The text with a member at a path of names from the outermost object; missing objects are
    added. Raises JsonTextError where the text is not JSON, or has something else than an object
    there."""
    content = parse(text)
    place = content
    for name in path[:-1]:
        place = _object(place, name).setdefault(name, {})
    _object(place, path[-1])[path[-1]] = value
    return _checked(_edited(text, path, value), content)


def without_member(text: str, path: Sequence[str]) -> str:
    """The text without a member, if it has one; raises as `with_member`."""
    content = parse(text)
    place = content
    for name in path[:-1]:
        place = _object(place, name).get(name, {})
    if path[-1] not in _object(place, path[-1]):
        return text
    del place[path[-1]]
    return _checked(_cut(text, path), content)


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise JsonTextError(f"what should have the member {name!r} is not an object")
    return value


def _checked(text: str, expected: Any) -> str:
    """The text, if it says what it should: an object with the same name twice may not."""
    if parse(text) != expected:
        raise JsonTextError("it cannot be changed: an object has the same name twice")
    return text


def _edited(text: str, path: Sequence[str], value: Any) -> str:
    plain = without_comments(text)
    start = _SPACE.match(plain).end()  # type: ignore[union-attr]
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _indentation(plain, start)
    for depth, name in enumerate(path, 1):
        members, close = _members(plain, start)
        found = next((member for member in reversed(members) if member.name == name), None)
        outer = newline + unit * (depth - 1)
        before = newline + unit * depth
        if found is None:
            for inner in reversed(path[depth:]):
                value = {inner: value}
            added = f"{before}{_dumped(name, before, unit)}: {_dumped(value, before, unit)}"
            if not members:
                rest = "" if "\n" in text[start:close] else outer
                return f"{text[: start + 1]}{added}{text[start + 1 : close]}{rest}{text[close:]}"
            return _after(text, members[-1].end, added)
        if depth == len(path):
            return text[: found.value] + _dumped(value, before, unit) + text[found.end :]
        start = found.value
    raise AssertionError("a path has a name")


def _dumped(value: Any, before: str, unit: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", before)


def _after(text: str, end: int, added: str) -> str:
    """The text with a member added behind the last one, and behind a comment in its line."""
    comma = _behind_comma(text, end)
    sign = "," if comma == end else ""
    place = comma
    for found in _TOKEN.finditer(text, comma):
        part = found[0]
        if part.isspace():
            line = re.match(r"[^\r\n]*", part)
            place = found.start() + (line.end() if line else 0)
            if len(part) > place - found.start():
                return text[:end] + sign + text[end:place] + added + text[place:]
        elif not part.startswith(_COMMENT) or "\n" in part:
            break
    return text[:end] + sign + text[end:comma] + added + text[comma:]


def _cut(text: str, path: Sequence[str]) -> str:
    plain = without_comments(text)
    start = _SPACE.match(plain).end()  # type: ignore[union-attr]
    for name in path:
        members, _ = _members(plain, start)
        place = max(n for n, member in enumerate(members) if member.name == name)
        start = members[place].value
    if place + 1 < len(members):
        return text[: members[place].start] + text[members[place + 1].start :]
    if place:
        comma = plain.index(",", members[place - 1].end)
        between = text[comma + 1 : members[place].start]
        rest = text[members[place].end :]
        # The end of a comment's line is needed, where none follows.
        if not between.strip() or re.match(r"[ \t]*\r?\n", rest):
            between = between.rstrip()
        return text[:comma] + between + rest
    # A last comma would be left alone.
    end = members[place].end
    comma = _behind_comma(text, end)
    before = text[: members[place].start].rstrip(" \t")
    return before + text[end : max(comma - 1, end)] + text[comma:]


def _behind_comma(text: str, end: int) -> int:
    """The place behind the comma that follows a value; the value's end where none follows."""
    for found in _TOKEN.finditer(text, end):
        if found[0] == ",":
            return found.end()
        if not (found[0].isspace() or found[0].startswith(_COMMENT)):
            break
    return end


def _members(plain: str, start: int) -> tuple[list[_Member], int]:
    """The members of the object that starts at a place, and the place where it ends."""
    skip: Callable[[int], int] = lambda at: _SPACE.match(plain, at).end()  # type: ignore[union-attr]  # noqa: E731
    found = []
    at = skip(start + 1)
    while plain[at] != "}":
        name, end = _DECODER.raw_decode(plain, at)
        value = skip(skip(end) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        found.append(_Member(name, at, value, end))
        at = skip(end)
        if plain[at] == ",":
            at = skip(at + 1)
    return found, at


def _indentation(plain: str, start: int) -> str:
    """What the first member is indented by; two spaces where it is in the object's line."""
    found = re.match(r"\{[ \t]*+\r?\n(?:[ \t]*+\r?\n)*+([ \t]++)\S", plain[start:])
    return found[1] if found else "  "
