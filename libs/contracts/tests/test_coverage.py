"""What a source gave, from its results or its failure."""

from __future__ import annotations

import pytest

from searchbus_contracts import Failure, decode, encode
from searchbus_contracts.coverage import Ranked, SourceCoverage, folded, nothing_found, shown


def test_results_are_answered_empty_or_stale():
    """Results from before count as stale, also where there are none."""
    states = [
        SourceCoverage.of_results("web", count, stale=stale).state
        for count, stale in ((2, False), (0, False), (2, True), (0, True))
    ]
    assert states == ["answered", "empty", "stale", "stale"]


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("upstream_blocked", "blocked"),
        ("upstream_limited", "blocked"),
        ("quota_exhausted", "blocked"),
        ("rate_limited", "blocked"),
        ("forbidden", "left_out"),
        ("unavailable", "failed"),
        ("a code of a newer peer", "failed"),
    ],
)
def test_failure_keeps_its_reason(code, state):
    """Whether to come again, and when, stands in the entry."""
    why = Failure(code=code, message="No.", retryable=True, retry_after_ms=9)
    entry = SourceCoverage.of_failure("web", why)
    assert entry == SourceCoverage(
        source="web", state=state, code=code, message="No.", retryable=True, retry_after_ms=9
    )
    assert decode(encode(entry), SourceCoverage) == entry


def test_complete_coverage_is_not_shown():
    """The form of some answers is fixed; there only what failed or is stale adds a field."""
    whole = SourceCoverage.of_results("a", 1)
    empty = SourceCoverage.of_results("b", 0)
    assert shown([whole, whole]) == []
    assert shown([whole, empty]) == []
    for part in (
        SourceCoverage.of_results("b", 2, stale=True),
        SourceCoverage.of_failure("b", Failure(code="unavailable", message="Away.")),
    ):
        assert shown([whole, part]) == [whole, part]


def test_many_empty_parts_are_one_entry():
    """A store of a hundred collections would fill each answer with their names."""
    answered = SourceCoverage.of_results("documents/a", 2)
    empty = [SourceCoverage.of_results(f"documents/{n}", 0) for n in range(100)]
    few = [empty[0], answered, *empty[1:8]]
    assert folded("documents", few) == few
    first, rest = folded("documents", [*empty, answered])
    assert first == answered
    assert (rest.source, rest.state) == ("documents", "empty")
    assert "100 others" in rest.message


def of(source: str, code: str | None, **options: object) -> SourceCoverage:
    if code is None:
        return SourceCoverage.of_results(source, 0)
    return SourceCoverage.of_failure(source, Failure(code=code, message=f"{code}.", **options))


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ((), None),
        ((None,), None),
        ((None, "forbidden"), None),
        ((None, "unavailable"), "unavailable"),
        (("forbidden",), "forbidden"),
        (("forbidden", "forbidden"), "forbidden"),
        (("forbidden", "quota_exhausted"), "quota_exhausted"),
        (("internal",), "upstream_failed"),
    ],
)
def test_answer_is_empty_only_where_every_source_that_was_asked_replied(codes, code):
    """A source that was left out was not asked."""
    fault = nothing_found([of(f"s{n}", given) for n, given in enumerate(codes)])
    assert (fault.code if fault else None) == code


def test_failure_worth_a_retry_stands_for_all():
    """The message names every source, and of a single one is that source's own."""
    final, soon = (
        of("web", "quota_exhausted"),
        of("a", "unavailable", retryable=True, retry_after_ms=9),
    )
    late = of("b", "unavailable", retryable=True, retry_after_ms=90)
    failure = nothing_found([final, late, soon, of("c", None)]).failure
    assert (failure.code, failure.retryable, failure.retry_after_ms) == ("unavailable", True, 9)
    assert failure.message == (
        "Nothing was found, because sources failed. web: quota_exhausted. b: unavailable. "
        "a: unavailable."
    )
    assert nothing_found([final]).failure.message == "quota_exhausted."


def test_ranking_is_the_same_after_the_wire():
    """Also of a result that no provider counts for."""
    for ranked in (Ranked(0.92, {"brave": 1, "ddg": 3}), Ranked(0.0, {})):
        assert decode(encode(ranked), Ranked) == ranked
