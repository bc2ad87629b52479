"""Pages in an answer of so many tokens: short ones whole, the others cut at sentences.

The budget holds for the JSON of the whole answer, which is what the model reads. A page's text is
untrusted: it stands between marks that it cannot contain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from msgspec import UNSET, Struct, UnsetType

from searchbus_contracts import encode
from searchbus_contracts.codec import doc
from searchbus_contracts.ingest import hash_of_text
from searchbus_contracts.queries import too_small
from searchbus_contracts.visible import marked
from searchbus_contracts.web import url_from
from searchbus_passages import Ruler, beginning, count, holds, share

from .extractor import ExtractedPage
from .outline import part_of

T = TypeVar("T")

_DIGITS = 24
"""Tokens by which the offsets of a longer part may be longer."""


class WebExtractItem(Struct, omit_defaults=True):
    """One page."""

    url: str
    content: Annotated[str, doc("Untrusted text of the page, between marks")]
    status: Annotated[str, doc("ok or an error code")]
    message: Annotated[str | UnsetType, doc("Why there is no content")] = UNSET
    title: Annotated[str | UnsetType, doc("Untrusted title of the page")] = UNSET
    start: Annotated[
        int | UnsetType, doc("The text between the marks is the page's from here, in characters")
    ] = UNSET
    end: Annotated[int | UnsetType, doc("To here, exclusive")] = UNSET
    chars: Annotated[int | UnsetType, doc("Length of the page's text")] = UNSET
    content_hash: Annotated[
        str | UnsetType, doc("SHA-256 of the page's whole text in UTF-8, in hex")
    ] = UNSET
    truncated: Annotated[bool, doc("Whether the text goes on")] = False
    cursor: Annotated[str | UnsetType, doc("The URL to extract for the rest")] = UNSET


def envelope(text: str, url: str, start: int, end: int, note: str = "") -> str:
    """`text[start:end]` between marks that the text cannot contain.

    The note follows, and where the text goes on, a notice that says how to get the rest.
    """
    notice = f"\n[{note}]" if note else ""
    if text[end:].strip():
        notice += (
            f"\n[Characters {start} to {end} of {len(text)}. "
            f"For the rest extract {url_from(url, end)}]"
        )
    return marked(text[start:end]) + notice


def fit(pages: Sequence[ExtractedPage], most: int) -> list[WebExtractItem]:
    """The pages with at most `most` tokens: short ones whole, the others cut at sentences.

    Raises:
        Fault: invalid_argument; the budget is too small for the answer without any text.
    """
    parts = [part_of(page.text, page.start) for page in pages]

    def item(number: int, start: int, end: int) -> WebExtractItem:
        return _item(pages[number], start, end)

    return fit_parts([page.text for page in pages], parts, most, item)


def fit_parts(
    texts: Sequence[str],
    parts: Sequence[tuple[int, int]],
    most: int,
    item: Callable[[int, int, int], T],
) -> list[T]:
    """The items of several texts with at most `most` tokens, as `fit` shares them.

    Args:
        parts: of each text, as offsets.
        item: makes the item of a text, by its number, with a part of it.

    Raises:
        Fault: invalid_argument; the budget is too small for the items without any text.
    """

    def made(parts: Sequence[tuple[int, int]]) -> list[T]:
        return [item(number, *part) for number, part in enumerate(parts)]

    items = made(parts)
    if holds(encode({"items": items}), most):
        return items
    frame = count(_encoded(made([(start, start) for start, _ in parts]))) + _DIGITS * len(texts)
    wanted = [
        Ruler(text[start:end]).between(0, end - start)
        for text, (start, end) in zip(texts, parts, strict=True)
    ]
    left = most - frame
    while left > 0:
        shares = share(wanted, left)
        cut = [
            (start, start + beginning(text[start:end], tokens))
            for text, (start, end), tokens in zip(texts, parts, shares, strict=True)
        ]
        items = made(cut)
        excess = count(_encoded(items)) - most
        if excess <= 0:
            return items
        left -= excess
    raise too_small(most, frame)


def _item(page: ExtractedPage, start: int, end: int) -> WebExtractItem:
    if page.status != "ok":
        return WebExtractItem(page.url, "", page.status, page.message or UNSET)
    goes_on = bool(page.text[end:].strip())
    return WebExtractItem(
        page.url,
        envelope(page.text, page.page_url, start, end, page.note),
        page.status,
        title=page.title or UNSET,
        start=start,
        end=end,
        chars=len(page.text),
        content_hash=hash_of_text(page.text),
        truncated=goes_on,
        cursor=url_from(page.page_url, end) if goes_on else UNSET,
    )


def _encoded(items: Sequence[object]) -> str:
    return encode({"items": items}).decode()
