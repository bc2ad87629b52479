"""Text that others wrote: without characters that people do not see, and between marks.

`visible` takes time in proportion to the text, and does not change its own output.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from functools import lru_cache

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


@lru_cache(4096)
def is_visible(character: str) -> bool:
    """Whether a character is no control, format or unassigned one, or joins scripts and emoji."""
    if character in _IN_CONTEXT:
        return True
    return not (unicodedata.category(character).startswith("C") or _IGNORABLE.match(character))


def visible(text: str) -> str:
    """The text without invisible characters; line ends become `\\n`, and tabs stay.

    Joiners stay between emoji and in the scripts that use them, selectors behind emoji.
    """
    # Most are: one look at the whole costs a tenth of one at each character.
    if text.isprintable() and not _IGNORABLE.search(text):
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    used = set(text)
    hidden = {c for c in used if c not in "\n\t" and not is_visible(c)}
    if hidden:
        text = text.translate(dict.fromkeys(map(ord, hidden)))
    if used & _IN_CONTEXT:
        text = _LOOSE_JOINER.sub("", _LOOSE_SELECTOR.sub("", text))
    return text


_MARKED = re.compile(r"<(untrusted_text_\w+)>\n(.*)\n</\1>", re.DOTALL)


def marked(text: str, mark: str | None = None) -> str:
    """A text between marks of untrusted text: those of its source, or new ones it does not have."""
    mark = mark or f"untrusted_text_{secrets.token_hex(4)}"
    return f"<{mark}>\n{text}\n</{mark}>"


def unmarked(text: str) -> tuple[str | None, str]:
    """The mark of a text and what stands between its marks; None and the text without any."""
    found = _MARKED.match(text)
    return (found[1], found[2]) if found else (None, text)
