"""verify_quote's arguments and answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from searchbus_contracts.queries import Part
from searchbus_passages import MAX_QUOTE_CHARS, Place

from .fetching import UNTRUSTED
from .sources import Fetched

__all__ = ["Difference", "QuoteFound", "VerifyQuote", "found_in"]


class VerifyQuote(Struct, forbid_unknown_fields=True):
    """Arguments of verify_quote."""

    id: Annotated[
        str,
        Meta(description="The id of a search result or of a source, or a document_id."),
    ]
    quote: Annotated[
        str, Meta(description=f"The quotation, at most {MAX_QUOTE_CHARS:,} characters.")
    ]


class Difference(Struct):
    """What the quotation says and what stands in the text; one of them may be empty."""

    quote: str
    text: Annotated[str, Meta(description=UNTRUSTED)]


class QuoteFound(Struct, omit_defaults=True):
    """The answer of verify_quote."""

    match: Annotated[
        Literal["exact", "equivalent", "nearest", "none"],
        Meta(
            description="exact: it stands there; equivalent: but for case, white space, dashes or "
            "quotation marks; nearest: the most similar text; none: nothing is similar."
        ),
    ]
    id: Annotated[str, Meta(description="For fetch: id#start-end of the place.")]
    title: Annotated[str, Meta(description=UNTRUSTED)]
    url: str
    start: (
        Annotated[int, Meta(description="In characters of the whole text; absent with none.")]
        | UnsetType
    ) = UNSET
    end: int | UnsetType = UNSET
    text: Annotated[str, Meta(description=f"What stands there. {UNTRUSTED}")] = ""
    similarity: Annotated[float, Meta(ge=0, le=1)] = 0.0
    differences: list[Difference] = []
    content_hash: Annotated[
        str | None, Meta(description="SHA-256 of the whole text in UTF-8, in hex.")
    ] = None
    untrusted: Annotated[bool | None, Meta(description="Whether others wrote title and texts.")] = (
        None
    )


def found_in(fetched: Fetched, place: Place) -> QuoteFound:
    """The answer for a place in the whole text of a page."""
    found = place.match != "none"
    return QuoteFound(
        match=place.match,
        id=str(Part(fetched.id, place.start, place.end)) if found else fetched.id,
        title=fetched.title,
        url=fetched.url,
        start=place.start if found else UNSET,
        end=place.end if found else UNSET,
        text=fetched.text[place.start : place.end],
        similarity=place.similarity,
        differences=[Difference(d.quote, d.text) for d in place.differences],
        content_hash=fetched.content_hash,
    )
