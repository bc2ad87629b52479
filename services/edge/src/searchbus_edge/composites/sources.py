"""What a source of the composites is: it finds hits, reads passages, and fetches full texts.

Source
├── Documents   every collection that the caller may read     documents.py
└── Web         the web tools that the caller may use         web.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from searchbus_contracts import Actor, Failure
from searchbus_contracts.coverage import SourceCoverage

__all__ = ["MAX_QUERY_CHARS", "Fetched", "Found", "Hit", "Source"]

MAX_QUERY_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Hit:
    """One result.

    Args:
        url: an address that a person can open.
        source: `documents/<collection>` or `web`.
        texts: the passages or the snippet that were found, best first.
        weight: the confidence of its source, 0 to 1.
    """

    id: str
    title: str
    url: str
    source: str
    texts: tuple[str, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """Hits, best first.

    Args:
        failures: the parts of the source that failed, by name.
        parts: what each of the others gave; empty for a source without parts.
    """

    hits: list[Hit]
    failures: Mapping[str, Failure] = field(default_factory=dict)
    parts: Sequence[SourceCoverage] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole document or page."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, str] = field(default_factory=dict)


class Source(Protocol):
    """A source of hits and of full texts. Its name is the first part of its hits' `source`."""

    name: str

    def absence(self, actor: Actor) -> Failure | None:
        """Why this caller cannot search the source now: `unavailable` or `forbidden`; or None."""

    async def search(
        self, query: str, limit: int, *, passages: int, actor: Actor, timeout_s: float
    ) -> Found:
        """Hits with at most so many passages each; raises Fault."""

    async def passages(
        self, question: str, hit: Hit, *, actor: Actor, timeout_s: float
    ) -> list[str]:
        """The passages of one of its hits that answer the question; raises Fault."""

    async def fetch(self, hit_id: str, *, actor: Actor, timeout_s: float) -> Fetched | None:
        """The text behind an id; None for ids of other sources; raises Fault(not_found)."""
