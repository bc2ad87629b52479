"""Pages whose text their scripts write: `browser.render` (§12.6)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from .codec import doc

MAX_RENDER_BYTES = 2 * 2**20
"""The largest page that is rendered; where scripts write the text, the page itself is small."""


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
