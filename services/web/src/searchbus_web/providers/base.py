"""What a search provider is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from searchbus_contracts import Actor

from ..results import Result

__all__ = ["Answer", "Provider", "Query", "TimeRange", "Topic"]

TimeRange = Literal["", "d", "w", "m", "y"]
Topic = Literal["general", "news"]


@dataclass(frozen=True, slots=True)
class Query:
    """One search. Domains are lower-case hosts; a result of a subdomain fits."""

    text: str
    limit: int
    time: TimeRange = ""
    topic: Topic = "general"
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Results, best first, and what the provider could not do as asked."""

    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()


class Provider(Protocol):
    """A web search provider.

    Args:
        group: providers of one group draw on the same index and count once in the fusion.
    """

    name: str
    group: str
    weight: float

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> Answer:
        """Search; raises Fault, never an empty answer for a failure."""

    @property
    def usable(self) -> bool:
        """Whether it would be asked now: not resting after a refusal."""
