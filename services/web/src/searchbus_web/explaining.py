"""Why a search of the web gave what it gave, for searches with `explain`.

The votes of a result's providers say why it stands where it does; `score` is the sum of those that
count. What was left out has its reason. A search without `explain` does none of this.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from .fusion import Fused, Vote
from .results import Result

__all__ = ["MAX_LEFT_OUT", "ProviderVote", "WebExplanation", "WebLeftOut", "explained", "left_out"]

MAX_LEFT_OUT = 20
"""The best pages that were left out."""
_DIGITS = 4


class ProviderVote(Struct, frozen=True, omit_defaults=True):
    """What one provider says of a result."""

    provider: str
    rank: Annotated[int, Meta(ge=1, description="Among the provider's results that fit")]
    score: Annotated[float, Meta(description="The provider's weight / (4 + rank)")]
    counted: Annotated[
        bool, Meta(description="False where another provider with the same index votes for more")
    ] = True


class WebExplanation(Struct, frozen=True, omit_defaults=True):
    """Why a result stands where it does."""

    score: Annotated[float, Meta(description="The sum of the votes that count")]
    votes: list[ProviderVote]
    copies: Annotated[
        list[str], Meta(description="Other URLs of the page, and copies at other hosts")
    ] = []
    behind_others: Annotated[
        bool, Meta(description="Its domain has three better results: those of others come first")
    ] = False


class WebLeftOut(Struct, frozen=True, omit_defaults=True):
    """A page that a provider found and that was left out."""

    url: str
    title: str
    reason: Annotated[
        str,
        Meta(
            description="limit: behind the last result; older: than the time range; undated: it "
            "may be older; domain: by the domain filters; not_public: no public web address"
        ),
    ]
    explanation: WebExplanation | None = None
    provider: str | None = None


def explained(page: Fused) -> WebExplanation:
    """The explanation of a fused page."""
    return WebExplanation(
        round(page.score, _DIGITS),
        [_vote(vote) for vote in page.votes],
        list(page.copies),
        page.behind_others,
    )


def left_out(
    refused: Iterable[tuple[str, Result, str]], fused: Iterable[tuple[Fused, str]]
) -> tuple[WebLeftOut, ...]:
    """What was left out, at most `MAX_LEFT_OUT`; fused pages come first.

    Args:
        refused: provider, its result, and why it was refused before the fusion.
        fused: page, and why it was left out, best first.
    """
    found = [
        WebLeftOut(page.result.url, page.result.title, reason, explained(page))
        for page, reason in fused
    ]
    found += [
        WebLeftOut(cleaned.url, cleaned.title, reason, provider=provider)
        for provider, result, reason in refused
        for cleaned in [result.cleaned()]
    ]
    return tuple(found[:MAX_LEFT_OUT])


def _vote(vote: Vote) -> ProviderVote:
    return ProviderVote(vote.provider, vote.rank, round(vote.score, _DIGITS), vote.counted)
