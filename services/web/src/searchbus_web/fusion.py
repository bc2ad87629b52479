"""Fuses the results of several providers into one list.

Weighted reciprocal rank fusion (Cormack et al. 2009). Providers that use the same index have one
vote together, because their rankings are not independent. URLs of one page and near-duplicates are
merged; no host pushes out the others; ties are ordered by canonical URL.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from searchbus_bus.fusion import reciprocal_rank
from searchbus_upstream import canonical_key

from .results import Result

__all__ = ["fuse"]

K = 20
"""Lists have ten results: with the usual 60 their ranks would differ too little."""
PER_HOST = 3
_NEAR_BITS = 3
_MIN_SNIPPET_CHARS = 80


@dataclass(slots=True)
class _Merged:
    key: str
    result: Result
    votes: dict[str, float] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return sum(self.votes.values())


def fuse(
    lists: Mapping[str, Sequence[Result]],
    *,
    groups: Mapping[str, str],
    weights: Mapping[str, float],
    diverse: bool = True,
) -> list[Result]:
    """Return all fused results, best first.

    Args:
        lists: provider → its results.
        groups, weights: of each provider.
        diverse: at most three results of one domain before those of other domains; off where the
            caller named the domains.
    """
    merged: dict[str, _Merged] = {}
    prints: list[tuple[int, _Merged]] = []
    for provider, results in lists.items():
        group = groups.get(provider, provider)
        for rank, result in enumerate(results):
            key = canonical_key(result.url)
            found = merged.get(key) or _near(result, prints)
            if found is None:
                found = merged[key] = _Merged(key, result)
                prints.append((_simhash(f"{result.title} {result.snippet}"), found))
            else:
                found.result = _better(found.result, result)
                merged[key] = found
            vote = reciprocal_rank(rank, k=K, weight=weights.get(provider, 1.0))
            found.votes[group] = max(found.votes.get(group, 0.0), vote)
    unique = {id(item): item for item in merged.values()}.values()
    ranked = [item.result for item in sorted(unique, key=lambda m: (-m.score, m.key))]
    return _spread(ranked) if diverse else ranked


def _better(one: Result, other: Result) -> Result:
    """The first result's URL, the longer texts, the earlier date."""
    dates = sorted(filter(None, (one.published_at, other.published_at)))
    return replace(
        one,
        title=max((one.title, other.title), key=len),
        snippet=max((one.snippet, other.snippet), key=len),
        published_at=dates[0] if dates else None,
    )


def _spread(ranked: Sequence[Result]) -> list[Result]:
    counts: dict[str, int] = {}
    front: list[Result] = []
    back: list[Result] = []
    for result in ranked:
        counts[result.source] = counts.get(result.source, 0) + 1
        (front if counts[result.source] <= PER_HOST else back).append(result)
    return front + back


def _near(result: Result, prints: Sequence[tuple[int, _Merged]]) -> _Merged | None:
    """A result with another URL and nearly the same text."""
    if len(result.snippet) < _MIN_SNIPPET_CHARS:
        return None  # too short to compare
    mine = _simhash(f"{result.title} {result.snippet}")
    for other, merged in prints:
        if (mine ^ other).bit_count() <= _NEAR_BITS:
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
