"""A part of a catalogue, compressed (proto/README.md §8.7).

Lines of UTF-8 under zlib: the kind ("tools", "prompts", …), then one descriptor a line. Tools are
wordy and alike: JSON of them takes about a tenth of its size. The hash of the part is the hash of
these lines, so that a reader can check what it got.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence

from .errors import ErrorCode, Fault

__all__ = ["KINDS", "pack", "part_hash", "unpack"]

KINDS = ("tools", "prompts", "resources", "resource_templates")
"""Of descriptors: the fields of a Catalog and of its parts."""


def part_hash(kind: str, descriptors: Sequence[bytes]) -> str:
    """The name of a part: 32 hex digits over its kind and the JSON of its descriptors."""
    return hashlib.sha256(b"".join((kind.encode(), *descriptors))).hexdigest()[:32]


def pack(kind: str, descriptors: Sequence[bytes]) -> bytes:
    """Compress a part.

    Args:
        kind: one of KINDS.
        descriptors: JSON without line breaks.
    """
    return zlib.compress(b"\n".join((kind.encode(), *descriptors)))


def unpack(packed: bytes, name: str, *, max_bytes: int) -> tuple[str, list[bytes]]:
    """The kind of a part and the JSON of its descriptors.

    Args:
        name: the part's hash.
        max_bytes: of the text; no more of it is decompressed.

    Raises:
        Fault: invalid_argument; it cannot be decompressed, is too large, or has another hash.
    """
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(packed, max(1, max_bytes))
    except zlib.error:
        raise _unfit(name, "cannot be decompressed") from None
    if not decompressor.eof:
        # The text goes on behind the limit, or the data ends too early.
        whole = bool(decompressor.unconsumed_tail)
        raise _unfit(name, "is too large" if whole else "cannot be decompressed")
    kind, *descriptors = text.split(b"\n")
    if hashlib.sha256(text.replace(b"\n", b"")).hexdigest()[:32] != name:
        raise _unfit(name, "has another hash")
    known = kind.decode("utf-8", "replace")
    if known not in KINDS:
        raise _unfit(name, "has an unknown kind")
    return known, descriptors


def _unfit(name: str, reason: str) -> Fault:
    return Fault(
        ErrorCode.INVALID_ARGUMENT, f"Part {name[:32]} of the catalogue {reason}. Send it again."
    )
