"""Requests of Tavily's API: what the tools are asked for, what is refused, what is named."""

from __future__ import annotations

from datetime import date

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.interfaces.tavily_requests import (
    NamedPeriod,
    plan_search,
    read_extract,
    read_search,
)
from searchbus_edge.interfaces.web_tools import FoundPage

TODAY = date(2026, 3, 20)


def plan(**body):
    request, _ = read_search({"query": "whales", **body})
    found = plan_search(request, TODAY)
    return found.tool, found.arguments


@pytest.mark.parametrize(
    ("body", "tool", "arguments"),
    [
        ({}, "web_search_advanced", {"maxResults": 5}),
        ({"max_results": 0}, "web_search_advanced", {"maxResults": 1}),
        ({"max_results": 20, "topic": "news"}, "web_search_news", {"maxResults": 20}),
        ({"time_range": "week"}, "web_search_advanced", {"maxResults": 5, "timeRange": "w"}),
        ({"time_range": "y"}, "web_search_advanced", {"maxResults": 5, "timeRange": "y"}),
        ({"topic": "news", "days": 3}, "web_search_news", {"maxResults": 20, "timeRange": "w"}),
        ({"start_date": "2026-03-01"}, "web_search_advanced", {"maxResults": 20, "timeRange": "m"}),
        ({"end_date": "2026-03-01"}, "web_search_advanced", {"maxResults": 20}),
        (
            {"include_domains": ["a.org"], "exclude_domains": ["b.org"]},
            "web_search_advanced",
            {"maxResults": 5, "includeDomains": ["a.org"], "excludeDomains": ["b.org"]},
        ),
        (
            {"topic": "news", "include_domains": ["a.org"]},
            "web_search_advanced",
            {"maxResults": 5, "includeDomains": ["a.org"]},
        ),
    ],
)
def test_parameters_become_arguments(body, tool, arguments):
    """Of the tool that has them; a period asks for more, since some results are left out."""
    assert plan(**body) == (tool, {"query": "whales", **arguments})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"query": None}, "query"),
        ({"query": 5}, "query is an integer. Give a string."),
        (
            {"topic": "sports"},
            "topic has a value that is not allowed. Give one of: finance, general, news.",
        ),
        ({"topic": "finance"}, "Invalid topic"),
        ({"max_results": 21}, "max_results"),
        ({"search_depth": "deep"}, "search_depth"),
        ({"chunks_per_source": 4}, "chunks_per_source"),
        ({"days": 0}, "days"),
        (
            {"start_date": "2024-13-01"},
            "start_date has a value that is not allowed. Give one such as 2024-01-31.",
        ),
        ({"start_date": "2026-03-02", "end_date": "2026-03-01"}, "must not be after end_date"),
        ({"start_date": "2026-03-02", "time_range": "day"}, "cannot be set together"),
        ({"exact_match": True}, "Put the phrase in quotation marks"),
        ({"filter_by_language": True}, "Invalid filter_by_language"),
        ({"safe_search": True}, "Invalid safe_search"),
        ({"include_domains": ["a.org"], "include_domains_mode": "boost"}, "must be 'filter'"),
    ],
)
def test_what_cannot_be_done_is_refused(body, message):
    """Where without it other results would come; the message names the parameter."""
    with pytest.raises(Fault) as raised:
        read_search({"query": "whales", **body})
    assert raised.value.code == ErrorCode.INVALID_ARGUMENT
    assert message in raised.value.failure.message


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ({"include_answer": "basic"}, "answer is null"),
        ({"include_answer": True}, "answer is null"),
        ({"include_raw_content": "text"}, "raw_content is Markdown"),
        ({"country": "france", "include_images": True}, "Not applied: include_images, country."),
        ({"auto_parameters": True}, "Not applied: auto_parameters."),
        ({"max_age_hours": 3, "x" * 90: 1}, f"not applied: max_age_hours, {'x' * 40}."),
    ],
)
def test_what_is_not_applied_is_named(body, note):
    """In a note of the answer."""
    _, notes = read_search({"query": "whales", **body})
    assert len(notes) == 1
    assert note in notes[0]


@pytest.mark.parametrize(
    "body",
    [
        {"include_answer": False, "include_raw_content": True, "include_usage": True},
        {"country": "", "include_domains": [], "include_domains_mode": "boost"},
        {"topic": None, "days": None, "time_range": None, "api_key": "tvly-x"},
        {"safe_search": False, "exact_match": False, "auto_parameters": False},
    ],
)
def test_defaults_are_not_named(body):
    """Clients send many parameters with their default values."""
    assert read_search({"query": "whales", **body})[1] == []


def test_search_of_news_with_domains_says_what_it_is():
    """The tool for news has no domains."""
    request, _ = read_search({"query": "x", "topic": "news", "exclude_domains": ["a.org"]})
    assert plan_search(request, TODAY).notes[0].startswith("topic: the search of news")


@pytest.mark.parametrize(
    ("body", "timeout_s"),
    [({}, 10.0), ({"extract_depth": "advanced"}, 30.0), ({"timeout": 2}, 2.0)],
)
def test_extraction_has_the_time_limit_of_its_depth(body, timeout_s):
    """As Tavily has them."""
    request, notes = read_extract({"urls": "https://a.org/", **body})
    assert (request.timeout_s, request.url_list, notes) == (timeout_s, ["https://a.org/"], [])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "urls"),
        ({"urls": []}, "1 to 20 URLs, not 0"),
        ({"urls": ["https://a.org/"] * 21}, "not 21"),
        ({"urls": [5]}, "urls[0]"),
        ({"urls": "https://a.org/", "timeout": 61}, "timeout"),
        ({"urls": "https://a.org/", "format": "html"}, "format"),
    ],
)
def test_wrong_extraction_is_refused(body, message):
    """With the name of the parameter."""
    with pytest.raises(Fault) as raised:
        read_extract(body)
    assert message in raised.value.failure.message


def test_extraction_names_what_is_not_applied():
    """In notes, as a search."""
    body = {"urls": ["https://a.org/"], "format": "text", "include_favicon": True, "depth": 2}
    assert read_extract(body)[1] == [
        "Not known here and not applied: depth.",
        "format: raw_content is Markdown.",
        "Not applied: include_favicon.",
    ]


@pytest.mark.parametrize(
    ("days", "time_range"),
    [(1, "d"), (2, "w"), (7, "w"), (8, "m"), (31, "m"), (32, "y"), (366, "y"), (367, None),
     (10**12, None)],
)  # fmt: skip
def test_time_range_covers_the_days(days, time_range):
    """The shortest one that fits; the tools have no range longer than a year."""
    assert NamedPeriod.of(today=TODAY, days=days).time_range == time_range


def test_later_of_two_beginnings_counts():
    """Where a request has days and a first day."""
    period = NamedPeriod.of(today=TODAY, days=3, first=date(2026, 1, 1))
    assert period.first == date(2026, 3, 17)
    assert NamedPeriod.of(today=TODAY, last=TODAY).time_range is None
    assert not NamedPeriod.of(today=TODAY).bounded


def rows(*dates: str | None) -> list[FoundPage]:
    return [FoundPage("t", f"https://{n}.example/", "", day) for n, day in enumerate(dates)]


def kept(period: NamedPeriod, *dates: str | None) -> tuple[list[str | None], list[str]]:
    found, notes = period.keep(rows(*dates))
    return [row.published_at for row in found], notes


def test_results_of_other_days_are_left_out():
    """Both ends belong to the period; what was left out is counted."""
    period = NamedPeriod.of(today=TODAY, first=date(2026, 3, 1), last=date(2026, 3, 2))
    dates = ("2026-02-28T23:59:59Z", "2026-03-01", "2026-03-02T23:00:00Z", "2026-03-03", None)
    found, notes = kept(period, *dates)
    assert found == ["2026-03-01", "2026-03-02T23:00:00Z"]
    assert notes == [
        "Results of other days were left out: 2.",
        "Results without a date were left out: 1.",
    ]


def test_undated_results_stay_where_no_other_is_left():
    """With a note that says so."""
    period = NamedPeriod.of(today=TODAY, days=1)
    assert kept(period, None, None)[0] == [None, None]
    assert kept(period, None)[1] == ["No result has a date: they may be of other days."]


def test_period_without_bounds_leaves_all():
    """And says nothing."""
    assert kept(NamedPeriod.of(today=TODAY), None, "1999-01-01") == ([None, "1999-01-01"], [])
