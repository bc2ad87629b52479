"""What others wrote: text without characters that people do not see (contracts/visible.py) and
without live markup, and JSON.

    shown = inert(visible(text))

Both take time in proportion to the text, and neither changes its own output. What could load or run
is broken up in place rather than removed: text on both sides of a removed part may form a new one.
"""

from __future__ import annotations

import json
import re
from typing import TypeVar

import msgspec

from searchbus_contracts.visible import visible

T = TypeVar("T")

# The part in brackets ends at the next bracket, the target at the next parenthesis, and a run of
# exclamation marks is tried only at its start: no character is read again for every match.
_IMAGE = re.compile(
    r'(?<!!)!+\[(?:([^\[\]]*)\](?:\([^()\s]*+(?:\s++"[^"()]*+")?\)|\[[^\[\]]*\])?)?'
)
_ELSE = r"\s*+(?:<\s*+)?(?!(?:https?|mailto|ftp):)"
_TARGET = re.compile(
    rf"\](?=\({_ELSE}[^\s()\[\]/?#<>]*?[:&\\]"
    rf"|:{_ELSE}(?:[^\s()\[\]/?#<>]*?[&\\]|(?:\w{{0,10}}script|data|file|blob)\s*:))",
    re.I,
)
# A definition begins a line, and a page may be cut into parts at any blank. What follows a word, as
# in `sshd[1]: user:root`, is none.
_DEFINITION = re.compile(
    rf"(?<![\w\])\\])(\[(?:[^\[\]\\]|\\.)*+\])(?=:{_ELSE}[a-z][a-z0-9+.-]*+:\S)", re.I | re.S
)
_LIVE = (
    "applet|audio|base|body|button|embed|form|frame|frameset|head|html|iframe|image|img|input|link|"
    "math|meta|noembed|noframes|noscript|object|picture|plaintext|portal|script|select|source|style|"
    "svg|template|textarea|title|track|video|xmp"
)
_TAG = re.compile(
    rf"<(?=[!?]|/?[a-z])(?!/?(?!(?:{_LIVE})>)[a-z][a-z0-9]{{0,30}}>)", re.I
)  # stays: a tag without attributes that neither loads nor runs, such as <b> or <int>
_MARK = re.compile(r"untrusted_(?=text_)", re.I)


def inert(text: str) -> str:
    """Markdown in which nothing loads or runs when it is shown.

    Images become `[image: their text]`; targets other than web and mail addresses are no longer
    targets; HTML with attributes or effects, comments and the marks of untrusted text are broken
    up: `<img src=…>` becomes `< img src=…>`.
    """
    text = _IMAGE.sub(_image_text, text)
    text = _DEFINITION.sub(r"\1 ", _TARGET.sub("] ", text))
    text = _TAG.sub("< ", text)
    return _MARK.sub(lambda match: match[0].replace("_", " "), text)


def _image_text(match: re.Match[str]) -> str:
    text = match[1]
    if text is None:  # it has brackets in its text: a link stays
        return "[image: "
    return f"[image: {text}]" if text else "[image]"


def plain(text: str, *, max_chars: int = 10_000) -> str:
    """One line of visible characters, of the first `max_chars`; every run of white space becomes
    one space."""
    spaced = "".join(" " if c.isspace() else c for c in text[:max_chars])
    return " ".join(visible(spaced).split())


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
