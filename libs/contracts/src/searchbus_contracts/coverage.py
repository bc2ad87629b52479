"""Coverage: what each source of an answer gave, so that a reader knows what the answer rests on.

Answers of several sources carry one entry for each source (proto/README.md §6), and a search of
several providers a `Ranked` for each result. Both are for hosts; models do not read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Struct

from .codec import doc
from .errors import ErrorCode, Failure, Fault

COVERAGE = "dev.searchbus/coverage"
"""The key of the coverage in MCP's `_meta`."""

CoverageState = Literal["answered", "empty", "stale", "blocked", "left_out", "failed"]
_MOST_EMPTY = 8
"""Parts that are named though they gave nothing: every answer is read by a model."""
_BLOCKED = frozenset(
    {
        ErrorCode.UPSTREAM_BLOCKED,
        ErrorCode.UPSTREAM_LIMITED,
        ErrorCode.QUOTA_EXHAUSTED,
        ErrorCode.RATE_LIMITED,
    }
)


class SourceCoverage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one source gave."""

    source: Annotated[str, doc("documents/<collection>, web, web/<provider>, a toolset, or a URL.")]
    # A plain string on the wire, so that the state of a newer peer still decodes.
    state: Annotated[
        str,
        doc(
            "answered; empty: nothing matches; stale: results from before, since the "
            "source fails now; blocked: refused or limited by its provider; left_out: the caller "
            "lacks a role; failed."
        ),
    ]
    results: Annotated[int, doc("Before sources are fused and cut.", ge=0)] = 0
    code: Annotated[str | None, doc("The error code of a failure.")] = None
    message: str | None = None
    retryable: bool = False
    retry_after_ms: int | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is missing: it answered now, be it that nothing matches."""
        return self.state in ("answered", "empty")

    @classmethod
    def of_results(cls, source: str, results: int, *, stale: bool = False) -> SourceCoverage:
        """The coverage of a source that replied."""
        state: CoverageState = "stale" if stale else "answered" if results else "empty"
        return cls(source=source, state=state, results=results)

    @classmethod
    def of_failure(cls, source: str, failure: Failure) -> SourceCoverage:
        """The coverage of a source that failed, or that was not asked."""
        state: CoverageState = "failed"
        if failure.code == ErrorCode.FORBIDDEN:
            state = "left_out"
        elif failure.code in _BLOCKED:
            state = "blocked"
        return cls(
            source=source,
            state=state,
            code=failure.code,
            message=failure.message,
            retryable=failure.retryable,
            retry_after_ms=failure.retry_after_ms,
        )


def folded(source: str, parts: Sequence[SourceCoverage]) -> list[SourceCoverage]:
    """The parts of a source; its name stands for all of the empty ones if they are many."""
    empty = [part for part in parts if part.state == "empty"]
    if len(empty) <= _MOST_EMPTY:
        return list(parts)
    rest = SourceCoverage(
        source=source,
        state="empty",
        message=f"{len(empty)} others of it have nothing that matches.",
    )
    return [*(part for part in parts if part.state != "empty"), rest]


def shown(coverage: Sequence[SourceCoverage]) -> list[SourceCoverage]:
    """What an answer shows whose form a specification fixes: nothing where nothing is missing."""
    return [] if all(part.complete for part in coverage) else list(coverage)


def nothing_found(coverage: Sequence[SourceCoverage]) -> Fault | None:
    """The failure of an answer without results; None where there is truly nothing.

    Every interface has this rule: an answer is empty only where each source that was asked replied.
    A source that was left out for a role was not asked; where all were, that is the failure.

    Args:
        coverage: of all sources. Of several failures, a retryable one with the shortest wait is
            chosen; the message names all of them.
    """
    failed = [part for part in coverage if part.state in ("failed", "blocked")]
    left_out = [part for part in coverage if part.state == "left_out"]
    if not failed and (not left_out or len(left_out) < len(coverage)):
        return None
    chosen = min(
        failed or left_out,
        key=lambda part: (not part.retryable, part.retry_after_ms or 0, part.code or ""),
    )
    message = chosen.message or ""
    if len(coverage) > 1:
        every = " ".join(f"{part.source}: {part.message}" for part in (*failed, *left_out))
        message = f"Nothing was found, because sources failed. {every}"
    # An internal error of a source is not one of the service that asked it.
    code = chosen.code if chosen.code != ErrorCode.INTERNAL else ErrorCode.UPSTREAM_FAILED
    return Fault(
        code or ErrorCode.UPSTREAM_FAILED,
        message,
        retryable=chosen.retryable,
        retry_after_ms=chosen.retry_after_ms,
    )


RANKING = "dev.searchbus/ranking"
"""The key of the ranking in MCP's `_meta`."""


class Ranked(Struct, frozen=True):
    """The rank of one result."""

    score: Annotated[
        float,
        doc("Share of the providers' votes: 1 where each that answered has it first.", ge=0, le=1),
    ]
    positions: Annotated[
        dict[str, int], doc("Provider → its position among that provider's results.")
    ]
