"""The web between services (§12).

`ddg.search` and `ddg.fetch` search it; `browser.render` runs the scripts of a page that write its
text. The tools of the toolset web and those who read their answers share the constants.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from .codec import doc

MAX_RESULTS = 10
"""Results of web_search."""
LATER_STATUS = re.compile(r"timeout|unreachable|dns|http_429|http_5\d\d")
"""Statuses of pages that may be readable later."""
START_FRAGMENT = "searchbus-start="
MAX_RENDER_BYTES = 2 * 2**20
"""The largest page that is rendered; where scripts write the text, the page itself is small."""


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


def url_from(url: str, start: int) -> str:
    """The URL that stands for a page's text from character `start` on."""
    return f"{url}#{START_FRAGMENT}{start}"


class RenderRequest(Struct, frozen=True, kw_only=True):
    """Run the scripts of a page that was fetched."""

    url: Annotated[
        str,
        doc(
            "http or https, where it was fetched.", max_length=4096,
            pattern="^[Hh][Tt][Tt][Pp][Ss]?://",
        ),
    ]  # fmt: skip
    body: Annotated[bytes, Meta(max_length=MAX_RENDER_BYTES)]
    content_type: Annotated[str, doc("As the site sent it.", max_length=200)]
    user_agent: Annotated[
        str, doc("For the requests of its scripts.", max_length=200, pattern=r"^[ -~]+$")
    ]


class RenderReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The page as its scripts left it."""

    html: str = ""
    url: Annotated[str, doc("Where its scripts say that it is: of the same origin.")] = ""
    moved_to: Annotated[
        str, doc("The address that its scripts lead to, which is not fetched; then html is empty.")
    ] = ""
    cut: Annotated[
        str,
        doc(
            "The limit that it reached before it was complete: seconds, deadline (of the request), "
            "requests, bytes, chars."
        ),
    ] = ""
