"""One search with several providers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_testing import until
from searchbus_upstream import SharedCache
from searchbus_web.fusion import Fused, WebExplanation
from searchbus_web.metasearch import MAX_LEFT_OUT, Metasearch, in_range
from searchbus_web.providers.base import Query, Result, SearchResults


class FakeProvider:
    """Returns as many results as requested, or raises; keeps the queries."""

    group = ""
    weight = 1.0
    usable = True
    has_news = True

    def __init__(self, name: str, fault: Fault | None = None) -> None:
        self.name = self.group = name
        self.fault = fault
        self.go: asyncio.Event | None = None
        self.queries: list[Query] = []
        self.urls: list[str] | None = None
        self.dates: list[str | None] | None = None

    async def search(self, query, *, actor, timeout_s) -> SearchResults:
        self.queries.append(query)
        if "hang" in query.text:
            await asyncio.sleep(3600)
        if self.go is not None:
            await self.go.wait()
        if self.fault is not None:
            raise self.fault
        urls = self.urls or [f"http://{self.name}{n}.org/" for n in range(query.limit)]
        dates = self.dates or [None] * len(urls)
        rows = zip(urls, dates, strict=False)
        results = tuple(Result(f" {self.name}\n", url, "", date) for url, date in rows)
        return SearchResults(results, (self.name,))


def fault(code: str, **options) -> Fault:
    return Fault(code, f"{code} it is.", **options)


async def search(
    *providers, text: str = "q", limit: int = 5, metasearch=None, explain: bool = False, **filters
):
    metasearch = metasearch or Metasearch(providers, SharedCache())
    query = Query(text, limit, **filters)
    actor = Actor(subject="a")
    return await metasearch.search(query, actor=actor, timeout_s=60.0, explain=explain)


async def test_results_and_notes_of_all_providers_are_joined():
    """The results are cleaned and limited."""
    found = await search(FakeProvider("a"), FakeProvider("b"), limit=4)
    assert [r.url for r in found.results] == [
        "http://a0.org/", "http://b0.org/", "http://a1.org/", "http://b1.org/",
    ]  # fmt: skip
    assert found.results[0].title == "a"
    assert found.notes == ("a", "b")


async def test_failing_provider_becomes_a_note():
    """With its code and message."""
    found = await search(FakeProvider("a"), FakeProvider("b", fault("quota_exhausted")))
    assert len(found.results) == 5
    assert found.notes == ("a", "b failed (quota_exhausted): quota_exhausted it is.")
    given = [(part.source, part.state, part.results) for part in found.coverage]
    assert given == [("a", "answered", 10), ("b", "blocked", 0)]


async def test_only_failures_are_a_failure():
    """Of several, a retryable one with the shortest wait; the message names all."""
    with pytest.raises(Fault) as caught:
        await search(
            FakeProvider("a", fault("quota_exhausted", retryable=False)),
            FakeProvider("b", fault("upstream_limited", retry_after_ms=9000)),
            FakeProvider("c", fault("rate_limited", retry_after_ms=3000)),
        )
    failure = caught.value.failure
    assert (failure.code, failure.retry_after_ms) == ("rate_limited", 3000)
    assert all(f"{name}: " in failure.message for name in "abc")
    with pytest.raises(Fault) as alone:
        await search(FakeProvider("a", fault("upstream_failed")))
    assert alone.value.failure.message == "upstream_failed it is."
    with pytest.raises(Fault) as nobody:
        await search()
    assert nobody.value.code == ErrorCode.UNAVAILABLE


async def test_slow_provider_is_a_failing_one():
    """Others are returned within the caller's time."""
    metasearch = Metasearch([FakeProvider("a")], SharedCache())
    with pytest.raises(Fault, match="did not answer in time"):
        await metasearch.search(Query("hang", 5), actor=Actor(subject="a"), timeout_s=0.05)


async def test_equal_searches_wait_each_in_their_own_time():
    """One with little time goes on without a provider that another search still waits for."""
    slow, quick = FakeProvider("a"), FakeProvider("b")
    quick.urls = ["http://b.org/"]
    slow.go = asyncio.Event()
    metasearch = Metasearch([slow, quick], SharedCache())

    async def search_within(timeout_s: float) -> list[str]:
        found = await metasearch.search(
            Query("late", 5), actor=Actor(subject="a"), timeout_s=timeout_s
        )
        return [result.url for result in found.results]

    patient = asyncio.create_task(search_within(60.0))
    await until(lambda: slow.queries)
    assert await search_within(0.2) == ["http://b.org/"]
    slow.go.set()
    assert len(await patient) == 5


async def test_a_search_with_little_time_does_not_end_an_equal_one():
    """Which joined the requests of the first."""
    provider = FakeProvider("a")
    provider.go = asyncio.Event()
    metasearch = Metasearch([provider], SharedCache())
    actor = Actor(subject="a")
    hurried = asyncio.create_task(metasearch.search(Query("late", 5), actor=actor, timeout_s=0.2))
    await until(lambda: provider.queries)
    patient = asyncio.create_task(metasearch.search(Query("late", 5), actor=actor, timeout_s=60.0))
    with pytest.raises(Fault, match="in time"):
        await hurried
    provider.go.set()
    assert len((await patient).results) == 5


async def test_filters_are_checked_here_too():
    """Providers ignore or misread some of them; private addresses are never results."""
    provider = FakeProvider("a")
    provider.urls = ["http://a.org/", "http://sub.a.org/", "http://nota.org/", "http://10.0.0.1/",
                     "http://bad.a.org/", "javascript:alert(1)"]  # fmt: skip
    found = await search(provider, include_domains=("a.org",), exclude_domains=("bad.a.org",))
    assert [r.url for r in found.results] == ["http://a.org/", "http://sub.a.org/"]


async def test_paths_of_domains_are_checked():
    """A result outside of the path does not belong to the domain that was asked for."""
    provider = FakeProvider("a")
    provider.urls = ["http://a.org/docs/1", "http://a.org/blog/1", "http://a.org/docs/old/1"]
    found = await search(
        provider, include_domains=("a.org/docs",), exclude_domains=("a.org/docs/old",)
    )
    assert [r.url for r in found.results] == ["http://a.org/docs/1"]


async def test_results_outside_of_the_time_range_are_left_out():
    """News of March do not answer a search for the last day, whatever the provider returns."""
    provider = FakeProvider("a")
    provider.dates = ["2026-03-02T10:00:00Z", "2026-11-21T20:00:00Z", None]
    now_s = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
    metasearch = Metasearch([provider], SharedCache(), clock=lambda: now_s)
    found = await search(metasearch=metasearch, time="d", topic="news", limit=3)
    assert [r.published_at for r in found.results] == ["2026-11-21T20:00:00Z"]
    assert found.notes[0] == "a"
    assert "older than the last day" in found.notes[1]
    assert "without a date" in found.notes[2]
    assert len((await search(metasearch=metasearch, topic="news", limit=3)).results) == 3


async def test_searches_for_up_to_ten_results_share_the_cache():
    """Every provider's results are cached separately; failures are not."""
    good, bad = FakeProvider("a"), FakeProvider("b", fault("upstream_failed"))
    metasearch = Metasearch([good, bad], SharedCache())
    for limit in (3, 10, 5):
        assert len((await search(metasearch=metasearch, limit=limit)).results) == limit
    await search(metasearch=metasearch, limit=11)
    assert [query.limit for query in good.queries] == [10, 20]
    assert len(bad.queries) == 4


async def test_stale_results_are_marked_while_the_provider_fails():
    """News are fresh for a shorter time."""
    now_s = [1e9]
    provider = FakeProvider("a")
    metasearch = Metasearch([provider], SharedCache(clock=lambda: now_s[0]))
    for topic in ("general", "news"):
        await search(metasearch=metasearch, topic=topic)
    now_s[0] += 300
    provider.fault = fault("upstream_failed")
    assert (await search(metasearch=metasearch)).notes == ("a",)
    stale = await search(metasearch=metasearch, topic="news")
    assert stale.notes == ("a", "a fails now; its results are from before.")
    assert len(stale.results) == 5
    assert [(part.source, part.state) for part in stale.coverage] == [("a", "stale")]


async def test_other_errors_are_raised():
    """A fault of the program is not hidden in a note."""
    with pytest.raises(ZeroDivisionError):
        await search(FakeProvider("a"), FakeProvider("b", ZeroDivisionError()))


async def test_explained_search_says_what_was_left_out_and_why():
    """Results and their order are those of the same search without it, which says nothing."""
    provider, other = FakeProvider("a"), FakeProvider("b")
    provider.urls = ["http://x.org/1", "http://10.0.0.1/", "http://bad.org/", "http://x.org/2",
                     "http://x.org/3", "http://x.org/4"]  # fmt: skip
    provider.dates = ["2026-11-21", None, None, "2026-03-02", None, "2026-11-20"]
    other.urls, other.dates = ["http://x.org/1"], ["2026-11-21"]
    now_s = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
    metasearch = Metasearch([provider, other], SharedCache(), clock=lambda: now_s)
    asked = {"metasearch": metasearch, "limit": 1, "time": "w", "exclude_domains": ("bad.org",)}
    plain = await search(**asked)
    found = await search(**asked, explain=True)
    assert (plain.why, plain.left_out) == ((), ())
    assert (found.results, found.notes) == (plain.results, plain.notes)
    (why,) = found.why
    assert [(vote.provider, vote.rank) for vote in why.votes] == [("a", 1), ("b", 1)]
    assert why.score == pytest.approx(sum(vote.score for vote in why.votes))
    assert [(entry.url, entry.reason) for entry in found.left_out] == [
        ("http://x.org/2", "older"), ("http://x.org/3", "undated"), ("http://x.org/4", "limit"),
        ("http://10.0.0.1/", "not_public"), ("http://bad.org/", "domain"),
    ]  # fmt: skip
    assert [entry.provider for entry in found.left_out] == [None] * 3 + ["a"] * 2
    assert found.left_out[0].explanation.votes[0].rank == 2


async def test_news_are_ordered_by_date_and_those_without_one_come_last():
    """The best are chosen by rank first; a date in the future is not believed."""
    provider = FakeProvider("a")
    provider.dates = ["2026-11-01", None, "2099-01-01", "2026-11-20T09:00:00Z", "2026-11-20", None]
    provider.urls = [f"http://n{n}.org/" for n in range(6)]
    now_s = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
    metasearch = Metasearch([provider], SharedCache(), clock=lambda: now_s)

    async def order(**options) -> list[str]:
        found = await search(metasearch=metasearch, **options)
        return [result.url[8] for result in found.results]

    assert await order(topic="news", limit=10) == ["3", "4", "0", "1", "2", "5"]
    assert await order(topic="news", limit=2) == ["3", "0"]
    assert await order(limit=10) == list("012345")
    explained = await search(metasearch=metasearch, topic="news", limit=2, explain=True)
    assert [why.votes[0].rank for why in explained.why] == [4, 1]
    assert {entry.reason for entry in explained.left_out} == {"limit"}


@pytest.mark.parametrize(
    ("news", "web", "note"),
    [
        (None, 3, "No news provider is configured: these are web results of the last week."),
        (0, 3, "No news provider has results: these are web results of the last week."),
        (3, 3, None),
        (3, 0, None),
        (None, 0, None),
    ],
)
async def test_web_results_for_news_are_noted_unless_news_were_found(news, web, note):
    """Beside results of a news provider the note would be wrong."""
    duck = FakeProvider("ddg")
    duck.has_news = False
    duck.urls = [f"http://d{n}.org/" for n in range(web)] or ["http://10.0.0.1/"]
    providers = [duck]
    if news is not None:
        other = FakeProvider("tavily")
        other.urls = [f"http://t{n}.org/" for n in range(news)] or ["http://10.0.0.1/"]
        providers.append(other)
    found = await search(*providers, topic="news")
    assert [line for line in found.notes if "news" in line] == ([note] if note else [])


OUTCOMES = ["ok", "empty", "failed"]


@pytest.mark.parametrize("one", OUTCOMES)
@pytest.mark.parametrize("other", OUTCOMES)
async def test_failure_is_never_shown_as_no_results(one, other):
    """Results beside a failure have coverage; without any the search fails."""
    providers = []
    for name, outcome in (("a", one), ("b", other)):
        provider = FakeProvider(name, fault("quota_exhausted") if outcome == "failed" else None)
        provider.urls = [f"http://{name}.org/"] if outcome == "ok" else ["http://10.0.0.1/"]
        providers.append(provider)
    if "ok" not in (one, other) and "failed" in (one, other):
        with pytest.raises(Fault, match="Nothing was found, because sources failed") as caught:
            await search(*providers)
        assert caught.value.code == "quota_exhausted"
        return
    found = await search(*providers)
    assert len(found.results) == [one, other].count("ok")
    states = {"ok": "answered", "empty": "empty", "failed": "blocked"}
    assert [part.state for part in found.coverage] == [states[one], states[other]]


async def test_results_that_are_all_too_old_do_not_hide_a_failure():
    """The provider that failed might have newer ones."""
    old = FakeProvider("a")
    old.urls, old.dates = ["http://a.org/"], ["2020-01-01"]
    with pytest.raises(Fault, match="b: quota_exhausted it is"):
        await search(old, FakeProvider("b", fault("quota_exhausted")), time="d")


async def test_what_was_left_out_is_limited_and_clean():
    """Pages of the fused list come first; what was refused was not cleaned before."""
    provider = FakeProvider("\u202ea\n")
    provider.urls = ["http://b.org/", "http://c.org/"] + ["http://10.0.0.1/"] * 28
    found = await search(provider, limit=1, explain=True)
    assert len(found.left_out) == MAX_LEFT_OUT
    assert [entry.reason for entry in found.left_out[:2]] == ["limit", "not_public"]
    page, refused = found.left_out[:2]
    assert page.explanation.votes[0].rank == 2
    assert (refused.provider, refused.explanation) == (provider.name, None)
    assert refused.title == "a"


NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)


def dated(*dates: str | None) -> list[Fused]:
    why = WebExplanation(1.0, [])
    return [Fused(Result(str(date), f"https://a.org/{date}", "", date), why) for date in dates]


def dates(pages: list[Fused]) -> list[str | None]:
    return [page.result.published_at for page in pages]


@pytest.mark.parametrize(
    ("time", "inside", "outside"),
    [
        ("d", "2026-03-19T12:00:01Z", "2026-03-19T11:59:59Z"),
        ("d", "2026-03-19", "2026-03-18"),
        ("d", "2026-03-19T00:00:00Z", "2026-03-18T00:00:00Z"),
        ("w", "2026-03-13", "2026-03-12"),
        ("m", "2026-02-17", "2026-02-16"),
        ("y", "2025-03-19", "2025-03-18"),
        ("d", "9999-12-31", "0001-01-01"),
    ],
)
def test_result_older_than_the_range_is_left_out(time, inside, outside):
    """A date without a time, or at midnight, stands for its whole day."""
    kept, notes = in_range(dated(outside, inside), time, NOW)
    assert dates(kept) == [inside]
    (note,) = notes
    assert note.startswith("1 result is older than the last ")


def test_undated_results_are_left_out_beside_dated_ones():
    """A note says how many."""
    kept, notes = in_range(dated(None, "2026-03-20", None, "2025-01-01"), "w", NOW)
    assert dates(kept) == ["2026-03-20"]
    assert notes == [
        "1 result is older than the last week and was left out.",
        "2 results without a date were left out: they may be older than the last week.",
    ]


def test_undated_results_stay_where_there_is_nothing_better():
    """A note says that their age is unknown."""
    kept, notes = in_range(dated(None, None), "d", NOW)
    assert len(kept) == 2
    assert notes == ["No result has a date: they may be older than the last day."]
    kept, notes = in_range(dated(None, "2025-01-01"), "d", NOW)
    assert dates(kept) == [None]
    assert notes[-1] == "No other result has a date: they may be older than the last day."


def test_without_a_range_nothing_is_left_out():
    """And nothing is said."""
    results = dated(None, "2001-01-01")
    assert in_range(results, "", NOW) == (results, [])
    assert in_range([], "d", NOW) == ([], [])
