"""Text that others wrote: without characters that people do not see, and without live markup.

    shown = inert(visible(text))

Both take time in proportion to the text, and neither changes its own output. What could load or run
is broken up in place rather than removed: text on both sides of a removed part may form a new one.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["inert", "is_visible", "plain", "visible"]

_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
"""Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties.txt), which changes seldom."""
_IN_CONTEXT = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""Joiners, and the two variation selectors of emoji."""
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf"
    "\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING = "\u0600-\u109f\u1780-\u18af\ua800-\uabff"
"""Scripts whose letters take other shapes beside a joiner, from Arabic to Khmer."""
_LOOSE_SELECTOR = re.compile(
    f"(?<![{_EMOJI}#*0-9])[\ufe0e\ufe0f]|(?<=[#*0-9])[\ufe0e\ufe0f](?!\u20e3)"
)
_LOOSE_JOINER = re.compile(
    f"(?<![{_JOINING}{_EMOJI}\ufe0f])[\u200c\u200d]"
    f"|(?<=[{_EMOJI}\ufe0f])(?:\u200c|\u200d(?![{_EMOJI}]))"
)

# The part in brackets ends at the next bracket, the target at the next parenthesis, and a run of
# exclamation marks is tried only at its start: no character is read again for every match.
_IMAGE = re.compile(
    r'(?<!!)!+\[(?:([^\[\]]*)\](?:\([^()\s]*+(?:\s++"[^"()]*+")?\)|\[[^\[\]]*\])?)?'
)
_TARGET = re.compile(
    r"\](?=\(\s*+(?:<\s*+)?(?!(?:https?|mailto|ftp):)[^\s()\[\]/?#<>]*?[:&\\]"
    r"|:\s*+(?:<\s*+)?(?:[^\s()\[\]/?#<>]*?[&\\]|(?:\w{0,10}script|data|file|blob)\s*:))",
    re.I,
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


def is_visible(character: str) -> bool:
    """Whether a character is neither a control nor a format character nor unassigned.

    The joiners and the selectors of emoji are kept: some scripts and emoji need them.
    """
    if character in _IN_CONTEXT:
        return True
    return not (unicodedata.category(character).startswith("C") or _IGNORABLE.match(character))


def visible(text: str) -> str:
    """The text without invisible characters; line ends become `\\n`, and tabs stay.

    Joiners stay between emoji and in the scripts that use them, selectors behind emoji.
    """
    text = text.replace("\r\n", "\n")
    used = set(text)
    hidden = {c for c in used if c not in "\n\t" and not is_visible(c)}
    if hidden:
        text = text.translate(dict.fromkeys(map(ord, hidden)))
    if used & _IN_CONTEXT:
        text = _LOOSE_JOINER.sub("", _LOOSE_SELECTOR.sub("", text))
    return text


def inert(text: str) -> str:
    """Markdown in which nothing loads or runs when it is shown.

    Images become `[image: their text]`; targets other than web and mail addresses are no longer
    targets; HTML with attributes or effects, comments and the marks of untrusted text are broken
    up: `<img src=…>` becomes `< img src=…>`.
    """
    text = _IMAGE.sub(_image_text, text)
    text = _TARGET.sub("] ", text)
    text = _TAG.sub("< ", text)
    return _MARK.sub(lambda match: match[0].replace("_", " "), text)


def _image_text(match: re.Match[str]) -> str:
    text = match[1]
    if text is None:  # it has brackets in its text: a link stays
        return "[image: "
    return f"[image: {text}]" if text else "[image]"


def plain(text: str, *, max_chars: int = 10_000) -> str:
    """One line of visible characters; every run of white space becomes one space.

    Args:
        max_chars: that are read; a title or a snippet never needs the rest.
    """
    spaced = "".join(" " if c.isspace() else c for c in text[:max_chars])
    return " ".join(visible(spaced).split())
