"""A worker's catalogue as it is sent: whole, or in parts by their hashes (proto/README.md §8.7).

A part ends after a descriptor whose name has a certain checksum (content-defined chunking), so that
an added or removed descriptor changes one part and moves no other. Parts are sent compressed.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from searchbus_contracts import Catalog, CatalogPart, CatalogRequest, ErrorCode, Fault
from searchbus_contracts.catalog import KINDS, pack
from searchbus_contracts.codec import canonical

_DESCRIPTORS_OF_A_PART = 32
"""On average. With 50,000 tools the list of parts takes 70 KB, and a part about as much."""
_WHOLE_BYTES = 64 * 1024
"""A smaller catalogue is always sent whole."""
_REPLY_BYTES = 480 * 1024
"""Parts of one reply together, as they are sent: less than one message."""
_UNPACKED_BYTES = 16 * 2**20
"""Parts of one reply together, unpacked."""


@dataclass(slots=True)
class _Part:
    """A part of a catalogue; `packed` once somebody asked for it."""

    content: CatalogPart
    size_bytes: int
    packed: CatalogPart | None = None

    def form(self, packed: bool) -> tuple[CatalogPart, int]:
        """The part as it is sent, and how many bytes that takes."""
        if not packed:
            return self.content, self.size_bytes
        if self.packed is None:
            kind = next(kind for kind in KINDS if getattr(self.content, kind))
            lines = [canonical(item) for item in getattr(self.content, kind)]
            self.packed = CatalogPart(hash=self.content.hash, packed=pack(kind, lines))
        return self.packed, len(self.packed.packed) * 4 // 3


class OfferedCatalog:
    """A catalogue, its hash, and its parts. Making one reads every descriptor: use a thread."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._parts: dict[str, _Part] = {}
        whole = hashlib.sha256(b'{"service":' + canonical(catalog.service))
        self._size_bytes = 0
        for kind in KINDS:
            items: Sequence[Any] = getattr(catalog, kind)
            for number, encoded in enumerate(self._add_parts(kind, items)):
                whole.update(b',"%s":[' % kind.encode() if number == 0 else b",")
                whole.update(encoded)
            if items:
                whole.update(b"]")
        whole.update(b"}")
        self.digest = whole.hexdigest()[:32]
        """Equals `catalog.digest`, for which the catalogue need not be encoded again."""

    def reply(self, request: CatalogRequest) -> Catalog:
        """The reply to a request: as many of the wanted parts as fit into one, at least one.
        Packing takes a while: use a thread. Raises Fault(not_found) where this catalogue has none
        of them."""
        small = self._size_bytes <= _WHOLE_BYTES
        if request.parts is None or (small and not request.packed):
            return self.catalog
        hashes = request.parts or (tuple(self._parts) if small else ())
        if not hashes:
            listed = tuple(CatalogPart(hash=name) for name in self._parts)
            return Catalog(service=self.catalog.service, parts=listed)
        size_bytes = unpacked_bytes = 0
        sent: list[CatalogPart] = []
        for name in hashes:
            part = self._parts.get(name)
            if part is None:
                continue
            form, form_bytes = part.form(request.packed)
            size_bytes += form_bytes
            unpacked_bytes += part.size_bytes
            if sent and (size_bytes > _REPLY_BYTES or unpacked_bytes > _UNPACKED_BYTES):
                break
            sent.append(form)
        if not sent:
            raise Fault(ErrorCode.NOT_FOUND, "The catalogue has no such parts. List them again.")
        return Catalog(service=self.catalog.service, parts=tuple(sent))

    def _add_parts(self, kind: str, items: Sequence[Any]) -> Iterator[bytes]:
        """Cut the descriptors of one kind into parts; gives each descriptor's canonical JSON."""
        start, size_bytes, content = 0, 0, hashlib.sha256(kind.encode())
        for place, item in enumerate(items):
            encoded = canonical(item)
            content.update(encoded)
            size_bytes += len(encoded)
            if place + 1 == len(items) or _ends_part(item):
                name = content.hexdigest()[:32]
                descriptors: dict[str, Any] = {kind: tuple(items[start : place + 1])}
                part = CatalogPart(hash=name, **descriptors)
                self._parts[name] = _Part(part, size_bytes)
                self._size_bytes += size_bytes
                start, size_bytes, content = place + 1, 0, hashlib.sha256(kind.encode())
            yield encoded


def _ends_part(item: Any) -> bool:
    own = getattr(item, "uri", "") or getattr(item, "uri_template", "") or item.name
    return zlib.crc32(f"{item.toolset} {own}".encode()) % _DESCRIPTORS_OF_A_PART == 0
