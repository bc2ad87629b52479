"""Keeps the pages of one call within a budget of tokens, each with a way to its rest.

    items = fit(pages, 25_000)      # WebExtractItem for each page

The budget holds for the JSON of the whole answer, which is what the model reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from searchbus_contracts import encode
from searchbus_contracts.ingest import hash_of_text
from searchbus_contracts.queries import too_small
from searchbus_passages import Ruler, beginning, count, holds, share

from .envelope import envelope, part_of, rest_of
from .extractor import ExtractedPage

__all__ = ["WebExtractItem", "fit"]


class WebExtractItem(Struct, omit_defaults=True):
    """One page."""

    url: str
    content: Annotated[str, Meta(description="Untrusted text of the page, between marks")]
    status: Annotated[str, Meta(description="ok or an error code")]
    message: Annotated[str, Meta(description="Why there is no content")] | UnsetType = UNSET
    start: (
        Annotated[
            int,
            Meta(description="The text between the marks is the page's from here, in characters"),
        ]
        | UnsetType
    ) = UNSET
    end: Annotated[int, Meta(description="To here, exclusive")] | UnsetType = UNSET
    chars: Annotated[int, Meta(description="Length of the page's text")] | UnsetType = UNSET
    content_hash: (
        Annotated[str, Meta(description="SHA-256 of the page's whole text in UTF-8, in hex")]
        | UnsetType
    ) = UNSET
    truncated: Annotated[bool, Meta(description="Whether the text goes on")] = False
    cursor: Annotated[str, Meta(description="The URL to extract for the rest")] | UnsetType = UNSET


def fit(pages: Sequence[ExtractedPage], most: int) -> list[WebExtractItem]:
    """The pages with at most `most` tokens: short ones whole, the others cut at sentences.

    Raises:
        Fault: invalid_argument; the budget is too small for the answer without any text.
    """
    parts = [part_of(page.text, page.start) for page in pages]
    items = _items(pages, parts)
    if holds(encode({"items": items}), most):
        return items
    bare = [(start, start) for start, _ in parts]
    frame = count(_encoded(_items(pages, bare))) + _DIGITS * len(pages)
    wanted = [
        Ruler(page.text[start:end]).between(0, end - start)
        for page, (start, end) in zip(pages, parts, strict=True)
    ]
    left = most - frame
    while left > 0:
        shares = share(wanted, left)
        cut = [
            (start, start + beginning(page.text[start:end], tokens))
            for page, (start, end), tokens in zip(pages, parts, shares, strict=True)
        ]
        items = _items(pages, cut)
        excess = count(_encoded(items)) - most
        if excess <= 0:
            return items
        left -= excess
    raise too_small(most, frame)


_DIGITS = 24
"""Tokens by which the offsets of a longer part may be longer."""


def _items(
    pages: Sequence[ExtractedPage], parts: Sequence[tuple[int, int]]
) -> list[WebExtractItem]:
    return [_item(page, *part) for page, part in zip(pages, parts, strict=True)]


def _item(page: ExtractedPage, start: int, end: int) -> WebExtractItem:
    if page.status != "ok":
        return WebExtractItem(page.url, "", page.status, page.message or UNSET)
    goes_on = bool(page.text[end:].strip())
    return WebExtractItem(
        page.url,
        envelope(page.text, page.page_url, start, end),
        page.status,
        start=start,
        end=end,
        chars=len(page.text),
        content_hash=hash_of_text(page.text),
        truncated=goes_on,
        cursor=rest_of(page.page_url, end) if goes_on else UNSET,
    )


def _encoded(items: Sequence[WebExtractItem]) -> str:
    return encode({"items": items}).decode()
