"""Names of a server's tools on the bus, and beside those of other servers.

A name on the bus matches `[A-Za-z0-9_-]{1,64}`. A tool whose own name does not gets one that does:
other characters become `_`, and a hash of its own name keeps it apart from others.
"""

from __future__ import annotations

import hashlib
import re

from searchbus_contracts import is_token

__all__ = ["qualified_name", "token_name"]

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
