"""The interface of a search provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from searchbus_contracts import Actor
from searchbus_contracts.coverage import SourceCoverage

from ..explaining import WebExplanation, WebLeftOut
from ..results import Result

__all__ = ["NEWS_TIME", "TIME_WORDS", "Provider", "Query", "SearchResults", "TimeRange", "Topic"]

TimeRange = Literal["", "d", "w", "m", "y"]
TIME_WORDS: dict[TimeRange, str] = {"d": "day", "w": "week", "m": "month", "y": "year"}
NEWS_TIME: TimeRange = "w"
"""Of web results that stand for news, where the caller gives no time."""
Topic = Literal["general", "news"]


@dataclass(frozen=True, slots=True)
class Query:
    """One search. Domains are filters of `domains`: `example.org` or `example.org/path`."""

    text: str
    limit: int
    time: TimeRange = ""
    topic: Topic = "general"
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Results, best first.

    Args:
        notes: what could not be done as requested.
        stale: whether they are from before, because the provider fails now.
        coverage: of results that were fused: what each provider gave.
        why: of a search that explains itself: one explanation for each result.
        left_out: of such a search: the pages that were left out.
    """

    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    stale: bool = False
    coverage: tuple[SourceCoverage, ...] = ()
    why: tuple[WebExplanation, ...] = ()
    left_out: tuple[WebLeftOut, ...] = ()


class Provider(Protocol):
    """A web search provider.

    Args:
        name: in notes, metrics and the cache's keys.
        group: providers of one group use the same index and have one vote in the fusion.
        weight: of its vote.
        has_news: whether it searches news; another gives web results of the last days instead.
    """

    name: str
    group: str
    weight: float
    has_news: bool

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """Search; raises Fault, and never returns an empty result for a failure."""

    @property
    def usable(self) -> bool:
        """Whether it can be used now: False during the cooldown after a refusal."""
