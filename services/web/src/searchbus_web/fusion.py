"""Several providers' results as one list.

Weighted reciprocal rank fusion (Cormack et al. 2009) with one vote a group, since providers that
draw on one index are no independent witnesses; pages and near-duplicates merged; no host in the way
of the others; ties by canonical address.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from searchbus_upstream import canonical_key

from .results import Result

__all__ = ["fuse"]

K = 20
"""Lists are ten deep: the usual 60 would hardly tell ranks apart."""
PER_HOST = 3
_NEAR_BITS = 3


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
    limit: int,
    diverse: bool = True,
) -> list[Result]:
    """Fuse; best first.

    Args:
        lists: provider → its results.
        groups, weights: of each provider.
        diverse: at most three of one host before those of other hosts; off where the caller named
            the hosts.
    """
    merged: dict[str, _Merged] = {}
    prints: list[tuple[int, str, _Merged]] = []
    for provider, results in lists.items():
        group = groups.get(provider, provider)
        for rank, result in enumerate(results):
            key = canonical_key(result.url)
            found = merged.get(key) or _near(result, prints)
            if found is None:
                found = merged[key] = _Merged(key, result)
                prints.append((_simhash(f"{result.title} {result.snippet}"), result.source, found))
            else:
                found.result = _better(found.result, result)
                merged[key] = found
            vote = weights.get(provider, 1.0) / (K + rank + 1)
            found.votes[group] = max(found.votes.get(group, 0.0), vote)
    unique = {id(item): item for item in merged.values()}.values()
    ranked = [item.result for item in sorted(unique, key=lambda m: (-m.score, m.key))]
    return (_spread(ranked) if diverse else ranked)[:limit]


def _better(one: Result, other: Result) -> Result:
    """The first one's address; the longer texts; the earlier date."""
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


def _near(result: Result, prints: Sequence[tuple[int, str, _Merged]]) -> _Merged | None:
    """A result of another address with nearly the same text."""
    if len(result.snippet) < 80:
        return None  # too little to tell by
    mine = _simhash(f"{result.title} {result.snippet}")
    for other, _, merged in prints:
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
