"""What an answer of the composites rests on: one entry for each source, in the sources' order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, to_builtins

from searchbus_bus import WithMeta
from searchbus_contracts import Failure
from searchbus_contracts.coverage import COVERAGE, SourceCoverage

from .sources import Found

__all__ = ["FAILURES", "Coverage", "Failures", "SourceFailure", "cover", "described", "with_meta"]

R = TypeVar("R")
FAILURES = "dev.searchbus/failures"
"""The key in `_meta` of failed sources, by name or URL; the field `failures` says the same."""


class SourceFailure(Struct, omit_defaults=True):
    """A source that gave no results, and why."""

    source: Annotated[str, Meta(description="documents, documents/<collection>, web, or a URL.")]
    code: Annotated[str, Meta(description="forbidden: left out, since the caller lacks a role.")]
    message: str
    retryable: bool = False
    retry_after_ms: int | None = None


Failures = Annotated[
    list[SourceFailure],
    Meta(description="Present where sources failed or were left out: there may be more results."),
]
Coverage = Annotated[
    list[SourceCoverage],
    Meta(description="What each source gave; present where one failed or its results are stale."),
]


def cover(
    names: Iterable[str], found: Mapping[str, Found], failures: Mapping[str, Failure]
) -> list[SourceCoverage]:
    """What the named sources and their parts gave.

    Args:
        found: of the sources that answered.
        failures: of all others.
    """
    coverage: list[SourceCoverage] = []
    for name in names:
        if name not in found:
            coverage.append(SourceCoverage.of_failure(name, failures[name]))
            continue
        reply = found[name]
        whole = SourceCoverage.of_results(name, len(reply.hits))
        coverage += reply.parts or ([whole] if reply.hits or not reply.failures else [])
        coverage += (SourceCoverage.of_failure(part, why) for part, why in reply.failures.items())
    return coverage


def described(failures: Mapping[str, Failure]) -> list[SourceFailure]:
    """The failures by name, as an answer shows them."""
    return [
        SourceFailure(name, f.code, f.message, f.retryable, f.retry_after_ms)
        for name, f in failures.items()
    ]


def with_meta(
    value: R, failures: Mapping[str, Failure], coverage: list[SourceCoverage]
) -> WithMeta[R]:
    """An answer with its coverage in `_meta`, and the failures by name where there are any."""
    meta: dict[str, Any] = {COVERAGE: to_builtins(coverage)}
    if failures:
        meta[FAILURES] = {name: to_builtins(failure) for name, failure in failures.items()}
    return WithMeta(value, meta)
