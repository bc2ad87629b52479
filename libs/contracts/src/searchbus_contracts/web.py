"""Web search between services: `ddg.search` and `ddg.fetch` (§12)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = ["WebResult", "WebSearchReply", "WebSearchRequest"]


class WebSearchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Search the web."""

    query: Annotated[str, Meta(description="1 to 499 characters, else invalid_query.")]
    limit: Annotated[int, Meta(ge=1, le=30)] = 10
    region: Annotated[
        str, Meta(pattern=r"^[a-z]{2}-[a-z]{2}$", description="DuckDuckGo's kl, e.g. 'de-de'.")
    ] = "wt-wt"
    time: Annotated[
        Literal["", "d", "w", "m", "y"],
        Meta(description="Not older than a day, week, month, year."),
    ] = ""
    safe: Literal["", "off", "moderate", "strict"] = ""
    hops: Annotated[
        int, Meta(ge=0, le=64, description="How often a worker forwarded the request.")
    ] = 0
    refused: Annotated[
        bool,
        Meta(description="A worker sent it and was refused: it is sent once more at most."),
    ] = False
    waits_ms: Annotated[
        dict[str, int],
        Meta(
            max_length=64,
            description="Of `ddg.fetch`: how long it would have waited for its turn at each worker "
            "that passed it on.",
        ),
    ] = {}
    caller: Annotated[
        str,
        Meta(
            max_length=1024,
            description="Of `ddg.fetch`: for whom it was forwarded. It gives turns, not rights.",
        ),
    ] = ""


class WebResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result, best first."""

    title: str
    url: Annotated[str, Meta(description="http or https, of a public host.")]
    snippet: str = ""
    published_at: Annotated[str, Meta(description="ISO 8601.")] | None = None


class WebSearchReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Results, best first; empty where the provider found nothing."""

    results: tuple[WebResult, ...]
    provider: str
    fetched_at_ms: Annotated[int, Meta(description="Milliseconds of the epoch.")]
    note: Annotated[
        str | None,
        Meta(description="Why results are missing or old."),
    ] = None
    stale: Annotated[bool, Meta(description="From the cache, because the provider fails now.")] = (
        False
    )
