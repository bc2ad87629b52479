"""Builds the result of fetch: exactly the specification's object, within a budget of tokens.

What the budget adds stands in `metadata`, since the specification leaves that to the server:
`start`, `end`, `chars` and `content_hash` of the text, and, where it had to be cut, `truncated`
and the `cursor` with which fetch goes on. A reader of the text alone learns it from its last line.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from searchbus_contracts import encode
from searchbus_contracts.queries import MAX_TOKENS, MIN_TOKENS, Part, too_small
from searchbus_contracts.web_tools import marked
from searchbus_passages import BudgetTooSmallError, fit_beginning

from .sources import UNTRUSTED, FetchedSource

MOST_TOKENS = 250_000
"""The budget of a caller who names none: the text of a book of 300 pages."""
Budget = Annotated[
    int, Meta(ge=MIN_TOKENS, le=MAX_TOKENS, description="The most that the answer may take.")
]


class Fetch(Struct, forbid_unknown_fields=True):
    """Arguments of fetch."""

    id: Annotated[
        str,
        Meta(
            description="The id of a search result; id#start-end for a part of its text, in "
            "characters."
        ),
    ]
    max_tokens: Annotated[
        int,
        Meta(
            ge=MIN_TOKENS,
            le=MAX_TOKENS,
            description="The most that the answer may take; by default the whole text is given, "
            f"of a very long one {MOST_TOKENS:,} tokens.",
        ),
    ] = MOST_TOKENS


class FetchedDocument(Struct):
    """The answer of fetch."""

    id: str
    title: str
    text: Annotated[
        str,
        Meta(
            description="The full text; where it had to be cut, its last line says so and how to "
            f"go on. {UNTRUSTED}"
        ),
    ]
    url: str
    metadata: Annotated[
        dict[str, str],
        Meta(
            description="`untrusted` is `true`: others wrote title and text. With `truncated`, "
            "fetch `cursor` for the rest. `content_hash` is the SHA-256 of the whole text."
        ),
    ]


def fit(part: Part, fetched: FetchedSource, most: int) -> FetchedDocument:
    """As many whole sentences of the document as fit; raises Fault(invalid_argument) where none
    can."""
    wanted = fetched.chars if part.end is None else min(part.end, fetched.chars)

    def document(length: int) -> FetchedDocument:
        return _document(part, fetched, length, wanted)

    try:
        return document(fit_beginning(fetched.text, most, lambda length: encode(document(length))))
    except BudgetTooSmallError as error:
        raise too_small(most, error.least) from None


def _document(part: Part, fetched: FetchedSource, length: int, wanted: int) -> FetchedDocument:
    text = fetched.text[:length]
    end = fetched.start + length
    metadata = dict(fetched.metadata)
    if fetched.content_hash is not None:
        metadata["content_hash"] = fetched.content_hash
    if fetched.start or end < fetched.chars:
        metadata |= {
            "start": str(fetched.start), "end": str(end), "chars": str(fetched.chars),
        }  # fmt: skip
    if fetched.mark is not None:
        text = marked(text, fetched.mark)
    if end < wanted:
        rest = str(Part(part.id, end, None if part.end is None else wanted))
        metadata |= {"truncated": "true", "cursor": rest}
        # Behind the marks of untrusted text: these words are ours.
        text += f"\n[Cut at character {end} of {fetched.chars}. Fetch {rest} for the rest.]"
    metadata["untrusted"] = "true"
    return FetchedDocument(fetched.id, fetched.title, text, fetched.url, metadata)
