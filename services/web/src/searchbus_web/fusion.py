"""Fuses the results of several providers into one list.

Weighted reciprocal rank fusion (Cormack et al. 2009). Providers that use the same index have one
vote together, because their rankings are not independent. URLs of one page and copies of it at
other hosts are merged; no host pushes out the others; ties are ordered by canonical URL.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from msgspec import Struct, structs

from searchbus_bus.client.fanout import reciprocal_rank
from searchbus_contracts.codec import doc
from searchbus_contracts.coverage import Ranked
from searchbus_upstream import canonical_key

from .providers.base import Result

K = 4
"""Lists have ten results: the first of one provider stays before the last of two others, which the
usual 60 would turn around.
"""
PER_HOST = 3
_NEAR_BITS = 3
_MIN_SNIPPET_CHARS = 80
_DIGITS = 4


class ProviderVote(Struct, frozen=True, omit_defaults=True):
    """What one provider says of a result."""

    provider: str
    rank: Annotated[int, doc("Among the provider's results that fit", ge=1)]
    score: Annotated[float, doc("The provider's weight / (4 + rank)")]
    counted: Annotated[
        bool, doc("False where another provider with the same index votes for more")
    ] = True


class WebExplanation(Struct, frozen=True, omit_defaults=True):
    """Why a result stands where it does."""

    score: Annotated[float, doc("The sum of the votes that count")]
    votes: list[ProviderVote]
    copies: Annotated[list[str], doc("Other URLs of the page, and copies at other hosts")] = []
    behind_others: Annotated[
        bool, doc("Its domain has three better results: those of others come first")
    ] = False


@dataclass(frozen=True, slots=True)
class Fused:
    """A page of the fused list, and why it stands there."""

    result: Result
    why: WebExplanation


@dataclass(slots=True)
class _Merged:
    """A page: its first result, with the longest texts of all.

    Args:
        votes: by the group of their provider.
        dates: that results of the page's own URL give; of a copy, where those give none.
    """

    key: str
    result: Result
    votes: dict[str, list[ProviderVote]] = field(default_factory=dict)
    dates: list[str] = field(default_factory=list)
    dates_of_copies: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)

    @property
    def score(self) -> float:
        return sum(max(vote.score for vote in votes) for votes in self.votes.values())

    def fused(self, most: float) -> Fused:
        """The page as a result; `most` votes are a score of 1."""
        votes: list[ProviderVote] = []
        for of_group in self.votes.values():
            best = max(of_group, key=lambda vote: vote.score)
            votes += [
                structs.replace(vote, score=round(vote.score, _DIGITS), counted=vote is best)
                for vote in of_group
            ]
        positions: dict[str, int] = {}
        for vote in votes:
            positions[vote.provider] = min(vote.rank, positions.get(vote.provider, vote.rank))
        result = replace(
            self.result,
            published_at=_date(self.dates or self.dates_of_copies),
            ranked=Ranked(round(self.score / most, _DIGITS), positions),
        )
        why = WebExplanation(round(self.score, _DIGITS), votes, list(dict.fromkeys(self.copies)))
        return Fused(result, why)


def fuse(
    lists: Mapping[str, Sequence[Result]],
    *,
    groups: Mapping[str, str],
    weights: Mapping[str, float],
    diverse: bool = True,
    boost: Callable[[str], float] = lambda url: 1.0,
) -> list[Fused]:
    """Return all fused results, best first.

    Args:
        lists: provider → its results.
        groups, weights: of each provider.
        diverse: at most three results of one domain before those of other domains; off where the
            caller named the domains.
        boost: by how much the votes of a URL count for its place.
    """
    merged: dict[str, _Merged] = {}
    prints: list[tuple[int, _Merged]] = []
    for provider, results in lists.items():
        group = groups.get(provider, provider)
        for rank, result in enumerate(results):
            key = canonical_key(result.url)
            found = merged.get(key) or _copied(result, prints)
            if found is None:
                found = merged[key] = _Merged(key, result)
                prints.append((_simhash(f"{result.title} {result.snippet}"), found))
            else:
                if result.url != found.result.url:
                    found.copies.append(result.url)
                found.result = _with_longer_texts(found.result, result)
                merged[key] = found
            if result.published_at is not None:
                dates = found.dates if key == found.key else found.dates_of_copies
                dates.append(result.published_at)
            score = reciprocal_rank(rank, k=K, weight=weights.get(provider, 1.0))
            found.votes.setdefault(group, []).append(ProviderVote(provider, rank + 1, score))
    unique = {id(item): item for item in merged.values()}.values()
    most = _most_votes(lists, groups, weights)
    order = sorted(unique, key=lambda m: (-m.score * boost(m.result.url), m.key))
    ranked = [item.fused(most) for item in order]
    return _spread(ranked) if diverse else ranked


def _most_votes(
    lists: Mapping[str, Sequence[Result]],
    groups: Mapping[str, str],
    weights: Mapping[str, float],
) -> float:
    """The votes of a page that every provider with results has first."""
    best: dict[str, float] = {}
    for provider, results in lists.items():
        if results:
            group = groups.get(provider, provider)
            vote = reciprocal_rank(0, k=K, weight=weights.get(provider, 1.0))
            best[group] = max(best.get(group, 0.0), vote)
    return sum(best.values())


def _with_longer_texts(one: Result, other: Result) -> Result:
    return replace(
        one,
        title=max((one.title, other.title), key=len),
        snippet=max((one.snippet, other.snippet), key=len),
    )


def _date(dates: Sequence[str]) -> str | None:
    """The date of the day that most results name, else of the first; a time before a mere date."""
    if not dates:
        return None
    day, _ = Counter(date[:10] for date in dates).most_common(1)[0]
    return max((date for date in dates if date.startswith(day)), key=len)


def _spread(ranked: Sequence[Fused]) -> list[Fused]:
    counts: Counter[str] = Counter()
    front: list[Fused] = []
    back: list[Fused] = []
    for page in ranked:
        source = page.result.source
        counts[source] += 1
        if counts[source] <= PER_HOST:
            front.append(page)
        else:
            back.append(replace(page, why=structs.replace(page.why, behind_others=True)))
    return front + back


def _copied(result: Result, prints: Sequence[tuple[int, _Merged]]) -> _Merged | None:
    """A result of another host with nearly the same text.

    Pages of one host often have one title and snippet, and are different pages all the same.
    """
    if len(result.snippet) < _MIN_SNIPPET_CHARS:
        return None  # too short to compare
    mine = _simhash(f"{result.title} {result.snippet}")
    for other, merged in prints:
        if (mine ^ other).bit_count() <= _NEAR_BITS and merged.result.source != result.source:
            return merged
    return None


def _simhash(text: str) -> int:
    """64 bits that differ little for texts that differ little (Charikar 2002)."""
    words = re.findall(r"\w+", text.lower())
    sums = [0] * 64
    for i in range(max(1, len(words) - 1)):
        shingle = " ".join(words[i : i + 2])
        bits = int.from_bytes(hashlib.blake2b(shingle.encode(), digest_size=8).digest())
        for bit in range(64):
            sums[bit] += 1 if bits >> bit & 1 else -1
    return sum(1 << bit for bit in range(64) if sums[bit] > 0)
