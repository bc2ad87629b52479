"""Bytes to text, whatever their charset is.

byte order mark → header → declaration in the page → UTF-8 → detection

A page may name only the charsets of the web: the codecs of Python include some that are no charset,
and UTF-7, in which markup can be hidden.
"""

from __future__ import annotations

import codecs
import re

__all__ = ["decode_text"]

_HEAD_BYTES = 4096
_DETECTED_BYTES = 200_000
_DECLARED = re.compile(
    rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)"
    rb"|^\s*<\?xml[^>]+encoding\s*=\s*[\"']([A-Za-z0-9_.:-]+)",
    re.I,
)
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_ALIASES = {"x-sjis": "cp932", "x-gbk": "gb18030", "x-euc-jp": "euc_jp", "windows-874": "cp874"}
_SUPERSETS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "euc_kr": "cp949", "big5": "big5hkscs",
}  # fmt: skip
"""Labels that browsers decode as a larger charset (WHATWG Encoding Standard)."""
_DETECTED = (
    "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258",
    "cp866", "cp874", "koi8_r", "koi8_u", "iso8859_2", "iso8859_5", "iso8859_7", "cp932", "euc_jp",
    "iso2022_jp", "gb18030", "big5hkscs", "cp949", "utf_8",
)  # fmt: skip
_ALLOWED = {codecs.lookup(name).name for name in (*_DETECTED, *_SUPERSETS)} | {
    *(f"iso8859-{part}" for part in (3, 4, 6, 8, 10, 13, 14, 15, 16)),
    "mac-cyrillic", "mac-roman", "utf-16", "utf-16-be", "utf-16-le",
}  # fmt: skip
_MAX_BAD_SHARE = 0.1


def decode_text(body: bytes, declared: str | None = None, *, markup: bool = False) -> str:
    """Decode the bytes of a page; every input becomes text.

    Args:
        declared: charset of the Content-Type header.
        markup: the body is HTML or XML, which may name its charset itself.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    # ISO-2022-JP has ASCII bytes only: as UTF-8 it would fit.
    japanese = "iso-2022-jp" if b"\x1b$B" in body else None
    for label in (declared, _declared_in(body) if markup else None, japanese, "utf-8"):
        codec = _codec(label)
        text = _fitting(body, codec) if codec is not None else None
        if text is not None:
            return text
    return body.decode(_detected(body), "replace")


def _declared_in(body: bytes) -> str | None:
    found = _DECLARED.search(body[:_HEAD_BYTES])
    return (found[1] or found[2]).decode("ascii") if found is not None else None


def _codec(label: str | None) -> str | None:
    """Python's name of an allowed charset; None for every other label."""
    if not label or len(label) > 40 or not label.isascii():
        return None
    label = label.strip().lower()
    try:
        name = codecs.lookup(_ALIASES.get(label, label)).name
    except (LookupError, ValueError):
        return None
    return _SUPERSETS.get(name, name) if name in _ALLOWED else None


def _fitting(body: bytes, codec: str) -> str | None:
    """The text, unless so many bytes do not fit that the label must be wrong.

    A page may be cut in the middle of a character, or contain a piece of another charset.
    """
    try:
        return body.decode(codec)
    except UnicodeDecodeError:
        text = body.decode(codec, "replace")
    bad = text.count("\ufffd")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return text if bad <= _MAX_BAD_SHARE * beyond_ascii else None


def _detected(body: bytes) -> str:
    from charset_normalizer import from_bytes  # slow to import, and needed seldom

    best = from_bytes(body[:_DETECTED_BYTES], cp_isolation=list(_DETECTED)).best()
    return best.encoding if best is not None else "utf-8"
