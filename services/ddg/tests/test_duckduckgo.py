"""The cache, and the forwarding of refused requests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.web import WebResult, WebSearchReply, WebSearchRequest
from searchbus_ddg.duckduckgo import REMEMBERED_S, DuckDuckGo, RefusedQueries
from searchbus_ddg.egress import Egress
from searchbus_ddg.outcome import Outcome
from searchbus_ddg.search import PageClient, RefusedError, ScrapedSearch, SearchRows
from searchbus_ddg.settings import DdgSettings
from searchbus_upstream import HttpReply, Pace, SharedCache, UpstreamTimeoutError


class FakeSearch:
    """Returns as many rows as requested, or raises."""

    def __init__(self) -> None:
        self.requests: list[WebSearchRequest] = []
        self.callers: list[str] = []
        self.note: str | None = None
        self.fault: Fault | None = None

    async def run(self, request, caller, timeout_s) -> SearchRows:
        self.requests.append(request)
        self.callers.append(caller)
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        rows = [WebResult(title=f"t{n}", url=f"https://a.org/{n}") for n in range(request.limit)]
        return SearchRows(rows[: 3 if self.note else None], self.note)


class FakeFleet:
    """Other workers are healthy or not."""

    key = "own"
    healthy = False
    remaining_s = 99.5

    async def leave_to_others(self) -> bool:
        return self.healthy


class FakeEgress:
    """Its next turn is after some seconds."""

    def __init__(self, client: FakeClient) -> None:
        self.client = client
        self.turn_s = 0.0

    def wait_s(self, caller: str) -> float:
        return self.turn_s


class FakeBus:
    """Keeps what is forwarded."""

    subjects = SimpleNamespace(endpoint=lambda service, verb: f"t.v1.{service}.{verb}")

    def __init__(self) -> None:
        self.forwarded: list[tuple[str, WebSearchRequest]] = []
        self.fault: Fault | None = None

    async def request(self, subject, request, reply_type, **options):
        self.forwarded.append((subject, request))
        assert "actor" not in options  # on a secured bus it could not be passed on twice
        if self.fault is not None:
            raise self.fault
        return WebSearchReply(results=(), provider="duckduckgo", fetched_at_ms=1)


class FakeClient:
    """Replies to instant answers."""

    def __init__(self) -> None:
        self.result: HttpReply | Exception = HttpReply(200, b'{"Answer": "42"}')
        self.sent = 0
        self.takes_s = 0.0

    async def send(self, request, *, timeout_s, max_bytes):
        self.sent += 1
        await asyncio.sleep(0)
        if timeout_s < self.takes_s:
            raise UpstreamTimeoutError("no answer")
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class Service:
    """A DuckDuckGo whose parts are all fakes."""

    def __init__(self) -> None:
        self.search, self.fleet, self.bus, self.client = (
            FakeSearch(), FakeFleet(), FakeBus(), FakeClient(),
        )  # fmt: skip
        self.egress = FakeEgress(self.client)
        self.now_s = 1_772_445_600.0
        self.duckduckgo = DuckDuckGo(
            self.bus,
            self.egress,
            self.search,
            self.fleet,
            SharedCache(clock=lambda: self.now_s),
            DdgSettings(ddg_instant_url="https://api.example/"),
        )


def call(remaining_s: float = 20.0):
    return SimpleNamespace(actor=Actor(subject="caller"), remaining_s=remaining_s)


@pytest.fixture
def service():
    return Service()


async def test_requests_for_up_to_a_page_share_one_search(service):
    """Each gets as many rows as it requested."""
    replies = [
        await service.duckduckgo.search(call(), WebSearchRequest(query=query, limit=limit))
        for query, limit in (("cats", 3), (" cats ", 10), ("cats", 7), ("cats", 11))
    ]
    assert [len(reply.results) for reply in replies] == [3, 10, 7, 11]
    assert [request.limit for request in service.search.requests] == [10, 20]


async def test_partial_results_are_returned_and_not_stored(service):
    """A note says why; where the rows suffice there is none."""
    service.search.note = "Further results could not be fetched: x."
    request = WebSearchRequest(query="cats", limit=5)
    reply = await service.duckduckgo.search(call(), request)
    assert (len(reply.results), reply.note, reply.stale) == (3, service.search.note, False)
    enough = await service.duckduckgo.search(call(), WebSearchRequest(query="cats", limit=2))
    assert (len(enough.results), enough.note) == (2, None)
    service.search.note = None
    reply = await service.duckduckgo.search(call(), request)
    assert (len(reply.results), reply.note) == (5, None)


async def test_stale_results_are_marked_while_the_search_fails(service):
    """With their date."""
    request = WebSearchRequest(query="cats", limit=1)
    await service.duckduckgo.search(call(), request)
    service.now_s += 3600
    service.search.fault = Fault(ErrorCode.UPSTREAM_FAILED, "down")
    reply = await service.duckduckgo.search(call(), request)
    assert reply.stale
    assert reply.note == (
        "DuckDuckGo cannot be reached now; this is its answer of 2026-03-02 10:00 UTC."
    )
    assert reply.fetched_at_ms == 1_772_445_600_000


@pytest.mark.parametrize("code", ["upstream_blocked", "upstream_limited"])
async def test_refused_request_is_forwarded_to_a_healthy_worker(service, code):
    """With one more hop."""
    service.search.fault = Fault(code, "refused", retry_after_ms=1000)
    service.fleet.healthy = True
    await service.duckduckgo.fetch(call(), WebSearchRequest(query="cats", hops=2))
    ((subject, request),) = service.bus.forwarded
    assert (subject, request.hops) == ("t.v1.ddg.fetch", 3)


async def test_forwarded_request_takes_the_turn_of_its_caller(service):
    """Over every hop; a request of another service cannot name somebody else."""
    service.egress.turn_s = 1.0
    service.fleet.healthy = True
    await service.duckduckgo.fetch(call(), WebSearchRequest(query="cats"))
    ((_, first),) = service.bus.forwarded
    nobody = SimpleNamespace(actor=Actor(), remaining_s=20.0)
    await service.duckduckgo.fetch(nobody, first)
    assert [request.caller for _, request in service.bus.forwarded] == ["caller", "caller"]
    service.egress.turn_s = 0.0
    await service.duckduckgo.search(call(), WebSearchRequest(query="dogs", caller="alice"))
    assert service.search.callers == ["caller"]


@pytest.mark.parametrize(
    ("turn_s", "waits_ms", "passed_on"),
    [
        (0.0, {}, False),  # its turn is now
        (2.0, {}, True),  # it may be now at another worker
        (2.0, {"own": 2000}, True),  # it came back: it has been to no other
        (2.0, {"other": 3000}, False),
        (2.0, {"own": 1, "other": 1000}, True),
    ],
)
async def test_request_whose_turn_is_sooner_elsewhere_is_passed_on(
    service, turn_s, waits_ms, passed_on
):
    """At once; it takes with it how long it would have waited here."""
    service.egress.turn_s = turn_s
    service.fleet.healthy = True
    await service.duckduckgo.fetch(call(), WebSearchRequest(query="cats", waits_ms=waits_ms))
    sent = [request.waits_ms for _, request in service.bus.forwarded]
    assert sent == ([{**waits_ms, "own": 2000}] if passed_on else [])
    assert len(service.search.requests) == (not passed_on)


@pytest.mark.parametrize(("healthy", "hops"), [(False, 0), (True, 4)])
async def test_request_that_nobody_else_can_take_waits_for_its_turn(service, healthy, hops):
    """No other worker is healthy, or it has been passed on often enough."""
    service.egress.turn_s = 2.0
    service.fleet.healthy = healthy
    await service.duckduckgo.fetch(call(), WebSearchRequest(query="cats", hops=hops))
    assert (len(service.bus.forwarded), len(service.search.requests)) == (0, 1)


@pytest.mark.parametrize("code", ["unavailable", "overloaded"])
async def test_request_that_the_others_did_not_take_waits_for_its_turn(service, code):
    """None of them has done anything for it."""
    service.egress.turn_s = 2.0
    service.fleet.healthy = True
    service.bus.fault = Fault(ErrorCode(code), "busy")
    await service.duckduckgo.fetch(call(), WebSearchRequest(query="cats"))
    assert (len(service.bus.forwarded), len(service.search.requests)) == (1, 1)


@pytest.mark.parametrize("hops", [0, 1])
async def test_bus_asks_nobody_else_for_a_worker_that_passed_a_request_on(service, hops):
    """Only the first one's caller may try again: else each hop would double the requests."""
    service.search.fault = Fault("overloaded", "no turn in time", retry_after_ms=9000)
    with pytest.raises(Fault) as caught:
        await service.duckduckgo.fetch(call(), WebSearchRequest(query="cats", hops=hops))
    assert caught.value.failure.retryable == (hops == 0)


@pytest.mark.parametrize(
    ("healthy", "hops", "left_s", "code"),
    [
        (False, 0, 20.0, "upstream_blocked"),
        (True, 8, 20.0, "upstream_blocked"),
        (True, 0, 0.3, "deadline_exceeded"),
        (True, 0, 20.0, "upstream_failed"),
    ],
)
async def test_other_failures_are_raised(service, healthy, hops, left_s, code):
    """No healthy worker, too many hops, too little time, or a failure that is not the address's."""
    own = code == "deadline_exceeded"  # others, who wait for the same, may have more time
    service.search.fault = Fault("upstream_blocked" if own else code, "no", retry_after_ms=1)
    service.fleet.healthy = healthy
    with pytest.raises(Fault) as caught:
        await service.duckduckgo.fetch(call(left_s), WebSearchRequest(query="cats", hops=hops))
    assert caught.value.code == code
    assert service.bus.forwarded == []


@pytest.mark.parametrize("tool", ["search", "instant"])
async def test_a_caller_with_little_time_ends_no_equal_request(service, tool):
    """Who waits for the same, and has more time, sends it again."""
    client = service.client
    client.takes_s = 2.0
    if tool == "search":
        page = b'<div class=result><a class=result__a href="https://a.org/">A</a></div></html>'
        client.result = HttpReply(200, page)
        pages = PageClient(client, html_url="https://html.example/", lite_url="https://x.example/")
        service.duckduckgo.scraped = ScrapedSearch(Egress("test", None, Pace(0.0)), pages)

    async def ask(left_s: float):
        if tool == "search":
            return await service.duckduckgo.search(call(left_s), WebSearchRequest(query="cats"))
        return await service.duckduckgo.instant(call(left_s), "cats")

    hurried, *patient = await asyncio.gather(*map(ask, (1.0, 20.0, 20.0)), return_exceptions=True)
    assert (hurried.code, client.sent) == ("deadline_exceeded", 2)
    assert not [found for found in patient if isinstance(found, Exception)]


def refused(outcome: Outcome) -> RefusedError:
    return RefusedError(outcome, ErrorCode.UPSTREAM_BLOCKED, "refused", 5)


@pytest.mark.parametrize("code", ["unavailable", "upstream_failed"])
async def test_reason_stays_where_the_other_worker_is_gone(service, code):
    """The refusal, and not that nobody answers; other failures are those of the other worker."""
    service.fleet.healthy = True
    service.search.fault = Fault(ErrorCode.UPSTREAM_BLOCKED, "No.")
    service.bus.fault = Fault(ErrorCode(code), "gone")
    with pytest.raises(Fault) as caught:
        await service.duckduckgo.fetch(call(), WebSearchRequest(query="cats"))
    assert caught.value.code == ("upstream_blocked" if code == "unavailable" else code)


async def test_refused_request_is_sent_once_more_at_most(service):
    """A forwarded one that was refused before is not; its query is not sent again for a while."""
    service.search.fault, service.fleet.healthy = refused(Outcome.BLANK), True
    await service.duckduckgo.fetch(call(), WebSearchRequest(query="cats"))
    ((_, forwarded),) = service.bus.forwarded
    assert (forwarded.hops, forwarded.refused) == (1, True)
    for request in (forwarded, WebSearchRequest(query="cats")):
        with pytest.raises(Fault) as caught:
            await service.duckduckgo.fetch(call(), request)
        assert caught.value.code == "upstream_blocked"
        assert "Change the query" in caught.value.failure.message
    assert (len(service.bus.forwarded), len(service.search.requests)) == (1, 2)


async def test_only_worker_remembers_a_query_that_its_healthy_address_is_refused(service):
    """After a suspicion alone it does not."""
    for outcome, sent in ((Outcome.BLANK, 1), (Outcome.QUERY_REFUSED, 2), (Outcome.BLANK, 2)):
        service.search.fault = refused(outcome)
        with pytest.raises(Fault):
            await service.duckduckgo.fetch(call(), WebSearchRequest(query="cats"))
        assert len(service.search.requests) == sent


async def test_wait_is_that_of_the_first_address_to_be_probed(service):
    """Whatever this worker's own cooldown is."""
    service.search.fault = Fault("upstream_blocked", "refused", retry_after_ms=9_000_000)
    with pytest.raises(Fault) as caught:
        await service.duckduckgo.search(call(), WebSearchRequest(query="cats"))
    assert caught.value.failure.retry_after_ms == 100_000
    assert "does not mean that there are no results" in caught.value.failure.message


@pytest.mark.parametrize("query", ["", "   ", "x" * 500])
async def test_invalid_queries_are_refused(service, query):
    """Before anything is sent."""
    with pytest.raises(Fault) as caught:
        await service.duckduckgo.search(call(), WebSearchRequest(query=query))
    assert caught.value.code == "invalid_query"
    with pytest.raises(Fault) as caught:
        await service.duckduckgo.instant(call(), query)
    assert caught.value.code == "invalid_query"
    assert (service.search.requests, service.client.sent) == ([], 0)


async def test_instant_answers_are_cached(service):
    """And marked as stale while they fail."""
    for _ in range(2):
        answer, note = await service.duckduckgo.instant(call(), "life")
        assert (answer.answer, note) == ("42", None)
    assert service.client.sent == 1
    service.now_s += 1800  # longer than a search is kept
    assert (await service.duckduckgo.instant(call(), "life"))[1] is None
    assert service.client.sent == 1
    service.now_s += 5400
    service.client.result = HttpReply(500, b"oops")
    answer, note = await service.duckduckgo.instant(call(), "life")
    assert answer.answer == "42"
    assert note.startswith("DuckDuckGo cannot be reached now")


@pytest.mark.parametrize(
    ("result", "code", "said"),
    [
        (HttpReply(500, b""), "upstream_failed", "HTTP 500"),
        (HttpReply(429, b""), "upstream_limited", "60 seconds"),
        (UpstreamTimeoutError("no answer"), "upstream_failed", "in time"),
        (HttpReply(200, b"<html>"), "upstream_failed", "not JSON"),
    ],
)
async def test_failures_of_instant_answers_have_their_codes(service, result, code, said):
    """They are never shown as "no instant answer"."""
    service.client.result = result
    with pytest.raises(Fault) as caught:
        await service.duckduckgo.instant(call(), "life")
    assert caught.value.code == code
    assert said in caught.value.failure.message


CATS = WebSearchRequest(query="cats")


async def test_refused_query_is_remembered():
    """With what it was searched for; the number of rows does not matter."""
    queries = RefusedQueries(SharedCache())
    await queries.require_none(CATS)
    added = await queries.add(CATS)
    assert (added.code, added.failure.retry_after_ms) == ("upstream_blocked", 600_000)
    with pytest.raises(Fault) as caught:
        await queries.require_none(WebSearchRequest(query="cats", limit=30))
    assert caught.value.code == "upstream_blocked"
    assert caught.value.failure.retryable
    assert 0 < caught.value.failure.retry_after_ms <= 600_000
    await queries.require_none(WebSearchRequest(query="cats", region="de-de"))
    await queries.require_none(WebSearchRequest(query="dogs"))


async def test_refused_query_is_sent_again_after_a_while():
    """DuckDuckGo may have changed its mind."""
    now_s = [1000.0]
    queries = RefusedQueries(SharedCache(clock=lambda: now_s[0]))
    await queries.add_once(CATS)
    assert await queries.once(CATS)
    now_s[0] += 60
    assert not await queries.once(CATS)
    await queries.add(CATS)
    now_s[0] += REMEMBERED_S
    await queries.require_none(CATS)
