"""Text of a server's definitions and answers as data: no control or invisible characters."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from searchbus_contracts import is_token
from searchbus_contracts.visible import is_visible, visible

_HIDDEN = frozenset("\u200c\u200d\u2028\u2029\u2800\ufe0e\ufe0f")
"""What `visible` keeps in texts: joiners, separators of lines, and what has no shape."""
_HIDING = frozenset({"Cf", "Co"})
_JOINERS = frozenset("\u200c\u200d")
"""Part of words and of emoji."""
_LEAST_HIDDEN_CHARS = 4
_PLAIN = bytes([*b"\t\n", *range(32, 127)])
_OURS = re.compile(r"dev\.searchbus[./]", re.I)
"""Keys of `_meta` that only searchbus writes."""


def clean(text: str, max_chars: int) -> str:
    """The text that a person sees, cut after `max_chars` characters with an ellipsis."""
    # Twice the limit is looked at: a text of megabytes costs no more than a page.
    looked_at = text[: 2 * max_chars + 1]
    hidden = {c for c in set(looked_at) if c not in "\n\t" and (c in _HIDDEN or not is_visible(c))}
    kept = looked_at.translate(dict.fromkeys(map(ord, hidden))).strip()
    is_whole = len(kept) <= max_chars and looked_at == text
    return kept if is_whole else f"{kept[: max_chars - 1]}…"


def clean_line(text: str, max_chars: int) -> str:
    """The same in one line."""
    return " ".join(clean(text, max_chars).split())


def sanitized(value: Any) -> Any:
    """An answer of a server: each text as those of web pages, and no key of ours in a `_meta`.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, str):
        # Most are plain, and base64 can be megabytes: deleting bytes costs least.
        plain = value.isascii() and not value.encode().translate(None, _PLAIN)
        return value if plain else visible(value)
    if isinstance(value, list):
        return [sanitized(one) for one in value]
    if isinstance(value, dict):
        found = {sanitized(key): sanitized(one) for key, one in value.items()}
        # Not before: an invisible character in a key would hide it from the comparison only.
        meta = found.get("_meta")
        if isinstance(meta, dict):
            found["_meta"] = {key: one for key, one in meta.items() if not _OURS.match(key)}
        return found
    return value


def hides_text(text: str) -> bool:
    """Whether a text that must stay as it is has several characters that nobody sees, as hidden
    instructions have.
    """
    if text.isascii():
        return False
    hidden = (
        unicodedata.category(char) in _HIDING or char >= "\U000e0100"
        for char in text
        if char not in _JOINERS
    )
    return sum(hidden) >= _LEAST_HIDDEN_CHARS


MAX_CHARS = 64
_HASH_CHARS = 8


def token_name(name: str) -> str:
    """The name of a tool on the bus: its own where that is possible."""
    if is_token(name):
        return name
    return _shortened(re.sub(r"[^A-Za-z0-9_-]", "_", name), name)


def qualified_name(server: str, tool: str) -> str:
    """The name of a tool beside those of other servers: `<server>__<tool>`, with a hash in the
    place of the end where that is longer than 64 characters.
    """
    name = f"{server}__{tool}"
    return name if len(name) <= MAX_CHARS else _shortened(name, name)


def _shortened(text: str, whole: str) -> str:
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{text[: MAX_CHARS - _HASH_CHARS - 1]}_{digest}"


def usable_uri(found: Any) -> TypeGuard[str]:
    """Whether a value can be a URI: a text in one line, of visible characters, without spaces."""
    if not isinstance(found, str) or not found or " " in found:
        return False
    return clean_line(found, len(found)) == found


_PREFIX = "searchbus://attach/"
VIEWS = "ui://"
"""Hosts show views of this scheme only, so that the address of one has it too."""
_WEB = frozenset({"http", "https"})


def wrapped_uri(server: str, uri: str) -> str:
    """The address of a server's URI or URI template."""
    if uri.startswith(VIEWS):
        return f"{VIEWS}{server}/{uri.removeprefix(VIEWS)}"
    return f"{_PREFIX}{server}/{uri}"


def own_uri(server: str, uri: str) -> str | None:
    """The server's URI of an address; None where it is not one of this server."""
    view = f"{VIEWS}{server}/"
    if uri.startswith(view) and uri != view:
        return f"{VIEWS}{uri.removeprefix(view)}"
    prefix = f"{_PREFIX}{server}/"
    return uri.removeprefix(prefix) if uri.startswith(prefix) and uri != prefix else None


def wrapped_link(server: str, uri: str) -> str:
    """The same for a URI in a result: one of the web stays, since clients can fetch it."""
    try:
        of_web = urlsplit(uri).scheme in _WEB
    except ValueError:
        of_web = False
    return uri if of_web else wrapped_uri(server, uri)
