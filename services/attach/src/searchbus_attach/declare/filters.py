"""Filters of texts on their way to and from attached servers, and the three that are built in.

    [servers.crm.view.tools.find.results]
    argument_filters = ["secrets"]
    result_filters = ["pii", "secrets", "injection"]

A call is refused if a filter finds something in its arguments; in results, what is found is
replaced. Filters help against accidents; who wants to can write around them. Further filters are
entry points of the group `searchbus.filters`: a name, and a function like those here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from searchbus_contracts import ErrorCode, Fault, ToolReply

GROUP = "searchbus.filters"
FILTERED = "dev.searchbus/filtered"
"""The key in `_meta` of a result: how often each filter found something."""


class Filtered(NamedTuple):
    """A text in which what was found is replaced, and how much was found."""

    text: str
    found: int


Filter = Callable[[str], Filtered]
"""Looks through one text, in time linear in its length; calls may come from several threads. No
other thread goes on while one call of `re` does: give it a long text in pieces."""

_LONG_NUMBER = 10**8
_DATA = frozenset({"data", "blob", "size"})
"""Fields of content that are no texts: base64, and the length of what a link leads to."""
_PIECE = 64 * 1024
_LONGEST = 12 * 1024
"""Characters that one call of `re` looks through, and more than a pattern here can find."""
_PEM_BEGIN, _PEM_END = "-----BEGIN ", "-----END "
_ISSUERS = (
    ("2200", "2204", (16,)), ("2221", "2720", (16,)), ("3000", "3999", (14, 15, 16)),
    ("4000", "4999", (13, 16, 19)), ("5000", "6999", (16,)), ("6200", "6299", (17, 18, 19)),
)  # fmt: skip
"""First and last four digits of cards, and how many digits those have. One in ten of all numbers
has a right check digit; no time in milliseconds, and few ids, begin so."""
_SECRET = re.compile(
    r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_\w{36,255}|github_pat_\w{40,255}"
    r"|xox[abeprs]-[\w-]{10,255}|(?:sk|rk|pk)[-_][\w-]{20,255}|AIza[\w-]{35}"
    r"|sbk_[\w-]{16,255}|glpat-[\w-]{20,255}"
    # A token of three parts; each is looked through from its beginning only. Where other
    # characters are before the first, which is no secret, the others are found without it.
    r"|eyJ(?:(?<![\w-]eyJ)[\w-]{10,4000}+\.eyJ|(?<=\.eyJ))[\w-]{10,4000}+\.[\w-]{10,4000}+)",
    re.ASCII,
)
_NAMED_SECRET = re.compile(
    r"(?P<name>\b(?:password|passwd|secret|api[_-]?key|access[_-]?token|bearer)\b[\"']?\s{0,4}[:= ]"
    r"\s{0,4}[\"']?)(?P<value>[^\s\"',;]{8,500})",
    re.ASCII | re.IGNORECASE,
)
_PERSONAL = re.compile(
    r"(?P<mail>(?<![\w.%+-])[\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8})"
    r"|(?P<phone>(?<![\w+])\+\d[\d ()./-]{6,18}\d(?!\w))"
    r"|(?P<iban>\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b)"
    r"|(?P<card>(?<![\d-])\d(?:[ -]?\d){12,18}(?![\d-]))"
    r"|(?P<ssn>(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-]))",
    re.ASCII,
)
_INSTRUCTION = re.compile(
    r"(?<!not an instruction: )\b(?:ignore|disregard|forget)\s{1,4}(?:all\s{1,4})?"
    r"(?:(?:of\s{1,4})?(?:the|your|any)\s{1,4})?"
    r"(?:previous|prior|above|earlier|preceding)\s{1,4}(?:instructions?|prompts?|rules|messages?)"
    r"|\byou\s{1,4}are\s{1,4}now\s{1,4}(?:in|an?|the)\s"
    r"|\bdo\s{1,4}not\s{1,4}(?:tell|inform|mention\s{1,4}this\s{1,4}to)\s{1,4}the\s{1,4}user\b"
    r"|</?(?:system|assistant|instructions?)>|<\|im_(?:start|end)\|>|\[/?INST\]",
    re.ASCII | re.IGNORECASE,
)


def secrets(text: str) -> Filtered:
    """Keys, tokens and passwords by their usual forms."""
    text, keys = _without_private_keys(text)
    text, tokens = _replaced(_SECRET, text, lambda match: "[secret]")
    text, named = _replaced(_NAMED_SECRET, text, lambda match: f"{match['name']}[secret]")
    return Filtered(text, keys + tokens + named)


def pii(text: str) -> Filtered:
    """Mail addresses, telephone, account, card and social security numbers."""

    def mask(match: re.Match[str]) -> str:
        valid = {"iban": _is_iban, "card": _is_card}.get(match.lastgroup or "")
        return f"[{match.lastgroup}]" if valid is None or valid(match[0]) else match[0]

    return _replaced(_PERSONAL, text, mask)


def injection(text: str) -> Filtered:
    """Phrases that speak to a model in the place of its user; they are put between marks."""
    return _replaced(_INSTRUCTION, text, lambda match: f"[not an instruction: {match[0]}]")


BUILT_IN: Mapping[str, Filter] = {"secrets": secrets, "pii": pii, "injection": injection}


@cache
def known_filters() -> Mapping[str, Filter]:
    """All filters by name; an entry point cannot take the place of one that is built in."""
    return {**{found.name: found.load() for found in entry_points(group=GROUP)}, **BUILT_IN}


def check_arguments(tool: str, arguments: Any, names: tuple[str, ...]) -> None:
    """Raise Fault(invalid_argument), which names the field, where a filter finds something."""
    for path, text in _texts(arguments, ""):
        for name in names:
            if known_filters()[name](text).found:
                raise Fault(
                    ErrorCode.INVALID_ARGUMENT,
                    f"{path or 'arguments'}: {tool} may not be sent what the filter {name} finds "
                    "there. Send it without that.",
                )


def filtered(reply: ToolReply, names: tuple[str, ...]) -> ToolReply:
    """The reply with what the filters found replaced: in texts, keys and long numbers, wherever
    they are but in base64."""
    counts: Counter[str] = Counter()

    def look(value: Any) -> Any:
        if isinstance(value, str):
            for name in names:
                value, found = known_filters()[name](value)
                counts[name] += found
            return value
        if isinstance(value, Struct):
            fields = {f: look(getattr(value, f)) for f in value.__struct_fields__ if f not in _DATA}
            return msgspec.structs.replace(value, **fields)
        if isinstance(value, list | tuple):
            return type(value)(map(look, value))
        if isinstance(value, dict):
            return _apart((look(key), look(one)) for key, one in value.items())
        if not _is_long(value):
            return value
        shown = look(str(value))
        return value if shown == str(value) else shown

    seen: ToolReply = look(reply)
    if not counts.total():
        return reply
    meta = {**(seen.meta or {}), FILTERED: dict(+counts)}
    return msgspec.structs.replace(seen, meta=meta)


def _apart(items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """All of the items: keys that are the same now have numbers, such as `[mail] 2`."""
    found: dict[Any, Any] = {}
    times: Counter[Any] = Counter()
    for shown, value in items:
        key = shown
        while key in found:
            times[shown] += 1
            key = f"{shown} {times[shown] + 1}"
        found[key] = value
    return found


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """(where it is, text) of all texts, keys and long numbers."""
    left = [(path, value)]
    while left:
        where, one = left.pop()
        if isinstance(one, str) or _is_long(one):
            yield where, str(one)
        elif isinstance(one, dict):
            for key, inner in one.items():
                yield where, key
                left.append((f"{where}.{key}".lstrip(".")[:128], inner))
        elif isinstance(one, list):
            left += ((f"{where}.{n}"[:128], inner) for n, inner in enumerate(one))


def _is_long(value: Any) -> bool:
    """Whether it is a number that can be that of a card or an account."""
    return isinstance(value, int | float) and abs(value) >= _LONG_NUMBER


def _replaced(pattern: re.Pattern[str], text: str, new: Callable[[re.Match[str]], str]) -> Filtered:
    """What `pattern.sub` gives, and how many matches are other texts now; piece by piece."""
    parts, done, found = [], 0, 0
    for start in range(0, len(text), _PIECE):
        end = start + _PIECE
        # What begins in this piece may end behind it; what begins behind it is for the next.
        for match in pattern.finditer(text, max(start, done), end + _LONGEST):
            if match.start() >= end:
                break
            shown = new(match)
            found += shown != match[0]
            parts += [text[done : match.start()], shown]
            done = match.end()
    return Filtered("".join([*parts, text[done:]]), found)


def _without_private_keys(text: str) -> tuple[str, int]:
    """The text without blocks of PEM that are private keys; one without an end takes the rest."""
    parts, at, found = [], 0, 0
    while (begin := text.find(_PEM_BEGIN, at)) >= 0:
        line_end = text.find("-----", begin + len(_PEM_BEGIN))
        if line_end < 0 or "PRIVATE KEY" not in text[begin : min(line_end, begin + 80)]:
            parts.append(text[at : begin + len(_PEM_BEGIN)])
            at = begin + len(_PEM_BEGIN)
            continue
        end = text.find(_PEM_END, line_end)
        last = len(text) if end < 0 else text.find("-----", end + len(_PEM_END))
        parts += [text[at:begin], "[secret]"]
        at, found = len(text) if end < 0 or last < 0 else last + 5, found + 1
    return ("".join([*parts, text[at:]]), found) if at else (text, 0)


def _is_card(text: str) -> bool:
    """Whether issuers give such numbers, and the check digit is right (ISO/IEC 7812, Luhn)."""
    plain = text.replace(" ", "").replace("-", "")
    if not any(low <= plain[:4] <= high and len(plain) in chars for low, high, chars in _ISSUERS):
        return False
    digits = [int(char) for char in reversed(plain)]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """Whether the check digits are right (ISO 13616)."""
    plain = text.replace(" ", "")
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1
