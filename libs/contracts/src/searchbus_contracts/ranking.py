"""Ranking: why a search result stands where it stands, for hosts; models do not read it.

    Ranked(score=0.92, positions={"brave": 1, "ddg": 3})

A search of several providers has one entry for each result, in their order (proto/README.md §6).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["RANKING", "Ranked"]

RANKING = "dev.searchbus/ranking"
"""The key of the ranking in MCP's `_meta`."""


class Ranked(Struct, frozen=True):
    """The rank of one result."""

    score: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of the providers' votes: 1 where each that answered has it first.",
        ),
    ]
    positions: Annotated[
        dict[str, int], Meta(description="Provider → its position among that provider's results.")
    ]
