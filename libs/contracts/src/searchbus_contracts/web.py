"""Web search between services: `ddg.search` and `ddg.fetch` (§12)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .codec import doc


class WebSearchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Search the web."""

    query: Annotated[str, doc("1 to 499 characters, else invalid_query.")]
    limit: Annotated[int, Meta(ge=1, le=30)] = 10
    region: Annotated[
        str, doc("DuckDuckGo's kl, e.g. 'de-de'.", pattern=r"^[a-z]{2}-[a-z]{2,3}$")
    ] = "wt-wt"
    time: Annotated[
        Literal["", "d", "w", "m", "y"], doc("Not older than a day, week, month, year.")
    ] = ""
    safe: Literal["", "off", "moderate", "strict"] = ""
    hops: Annotated[int, doc("How often a worker forwarded the request.", ge=0, le=64)] = 0
    refused: Annotated[
        bool, doc("A worker sent it and was refused: it is sent once more at most.")
    ] = False
    waits_ms: Annotated[
        dict[str, int],
        doc(
            "For `ddg.fetch`: how long it would have waited for its turn at each worker that "
            "passed it on.",
            max_length=64,
        ),
    ] = {}
    caller: Annotated[
        str,
        doc(
            "For `ddg.fetch`: the caller it was forwarded for. It gives turns, not rights.",
            max_length=1024,
        ),
    ] = ""


class WebResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result, best first."""

    title: str
    url: Annotated[str, doc("http or https, of a public host.")]
    snippet: str = ""
    published_at: Annotated[str, doc("ISO 8601.")] | None = None


class WebSearchReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Results, best first; empty where the provider found nothing."""

    results: tuple[WebResult, ...]
    provider: str
    fetched_at_ms: Annotated[int, doc("Milliseconds of the epoch.")]
    note: Annotated[str | None, doc("Why results are missing or old.")] = None
    stale: Annotated[bool, doc("From the cache, because the provider fails now.")] = False
    more: Annotated[bool, doc("Whether there is a further page, for `ddg.engine`.")] = False
