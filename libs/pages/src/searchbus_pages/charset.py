"""Bytes to text, whatever their charset is.

byte order mark → header → declaration in the page → UTF-16 by its NUL bytes → UTF-8 → detection
"""

from __future__ import annotations

import codecs
import re

_SAMPLE_CHARS = 1_000_000
_MAX_SHARE = 0.02
# Not among them: white space, backspace, escape (colours of terminals), and the end mark of DOS.
_NO_TEXT = re.compile("[\x00-\x07\x0e-\x19\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd]")


def looks_binary(text: str) -> bool:
    """Whether more than 2 % are control characters or stand for bytes that are no character."""
    sample = text[:_SAMPLE_CHARS]
    return len(_NO_TEXT.findall(sample)) > _MAX_SHARE * len(sample)


_HEAD_BYTES = 4096
_DETECTED_BYTES = 200_000
# A tag ends where the next one begins, and blanks are taken once: no byte is read for two tags.
_DECLARED = re.compile(
    rb"<meta[^<>]+charset\s*+=\s*+[\"']?+\s*+([A-Za-z0-9_.:-]+)"
    rb"|^\s*<\?xml[^<>]+encoding\s*+=\s*+[\"']([A-Za-z0-9_.:-]+)",
    re.I,
)
_PARAMETER = re.compile(r";\s*charset\s*=[\s\"']*([^\s\"';]+)", re.I)
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_ALIASES = {"x-sjis": "cp932", "x-gbk": "gb18030", "x-euc-jp": "euc_jp", "windows-874": "cp874"}
_SUPERSETS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "euc_kr": "cp949", "big5": "big5hkscs",
}  # fmt: skip
"""Labels that browsers decode as a larger charset (WHATWG Encoding Standard)."""
_LATIN = ("cp1252", "cp1250", "cp1254", "cp1257", "cp1258", "iso-8859-2")
_DETECTED = (
    *_LATIN, "cp1251", "cp1253", "cp1255", "cp1256", "cp866", "cp874", "koi8-r", "koi8-u",
    "iso-8859-5", "iso-8859-7", "cp932", "euc-jp", "iso-2022-jp", "gb18030", "big5hkscs", "cp949",
)  # fmt: skip
_FEW_BYTES = 4
"""Too few bytes beyond ASCII to tell one Latin charset from another."""
_ALLOWED = {codecs.lookup(name).name for name in (*_DETECTED, *_SUPERSETS, "utf-8")} | {
    *(f"iso8859-{part}" for part in (3, 4, 6, 8, 10, 13, 14, 15, 16)),
    "mac-cyrillic", "mac-roman", "utf-16", "utf-16-be", "utf-16-le",
}  # fmt: skip
_MAX_BAD_SHARE = 0.1


def decode_text(body: bytes, declared: str | None = None, *, markup: bool = False) -> str:
    """Decode the bytes of a page by its declared charset, or the one that markup names; every input
    becomes text."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    # ISO-2022-JP has ASCII bytes only: as UTF-8 it would fit.
    japanese = "iso-2022-jp" if b"\x1b$B" in body else None
    wide = _utf_16(body)
    for label in (declared, _declared_in(body) if markup else None, japanese, wide, "utf-8"):
        codec = _codec(label)
        text = _fitting(body, codec) if codec is not None else None
        if text is not None:
            return text
    return body.decode(detect_charset(body), "replace")


def charset_of(content_type: str) -> str | None:
    """What a header Content-Type names."""
    found = _PARAMETER.search(content_type)
    return found[1] if found is not None else None


def _declared_in(body: bytes) -> str | None:
    found = _DECLARED.search(body[:_HEAD_BYTES])
    label = (found[1] or found[2]).decode("ascii") if found is not None else ""
    # Nothing that ASCII shows is in UTF-16 (HTML standard, 13.2.3.2), and UTF-8 needs no name.
    return None if label.lower().startswith("utf") else label


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


def detect_charset(sample: bytes) -> str:
    """Python's name of the most likely charset of bytes that are not UTF-8."""
    import chardet  # slow to import, and needed seldom

    sample = sample[:_DETECTED_BYTES]
    among: tuple[str, ...] = _DETECTED
    if _is_latin(sample):
        if len(_HIGH.findall(sample)) < _FEW_BYTES:
            return "cp1252"
        among = _LATIN
    found = chardet.detect(
        sample, encoding_era=chardet.EncodingEra.MODERN_WEB, include_encodings=among
    )["encoding"]
    return _codec(found) or "cp1252"


_HIGH = re.compile(rb"[\x80-\xff]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]{2,}")


def _is_latin(sample: bytes) -> bool:
    """Whether most bytes beyond ASCII stand alone; in other scripts whole words consist of them."""
    high = len(_HIGH.findall(sample))
    return 2 * sum(map(len, _HIGH_RUN.findall(sample))) < high


def _utf_16(body: bytes) -> str | None:
    """The byte order of UTF-16 without a mark; None where the bytes are not UTF-16.

    Its ASCII characters, of which every text has spaces or line ends, have a NUL byte each: on the
    odd places in little-endian text, on the even ones in big-endian text.
    """
    sample = body[: min(_DETECTED_BYTES, len(body) // 2 * 2)]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    name = "utf-16-le" if odd > even else "utf-16-be"
    if max(even, odd) == 0 or 20 * min(even, odd) > max(even, odd):
        return None
    try:
        text = sample.decode(name)
    except UnicodeDecodeError:
        return None
    if any(c in text for c in "\0\ufffe\uffff"):
        return None
    mostly_ascii = 5 * max(even, odd) > len(sample) * 2
    return name if mostly_ascii or " " in text or "\n" in text else None
