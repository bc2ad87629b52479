"""One egress address: turns, cooldowns, probes."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest

from searchbus_contracts import Fault
from searchbus_ddg.egress import (
    VOUCHED_S,
    Cooldowns,
    Egress,
    ImpersonatingClient,
    egress_id,
    open_client,
)
from searchbus_ddg.outcome import EngineError, Outcome
from searchbus_upstream import (
    HttpClient,
    HttpRequest,
    Pace,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
)


@pytest.fixture
def now_s():
    return [1000.0]


@pytest.fixture
def egress(now_s):
    return Egress("test", None, Pace(0.0), clock=lambda: now_s[0])


async def succeed(left_s: float) -> str:
    return "page"


def failing(outcome: Outcome, retry_after_s: float | None = None):
    async def fail(left_s: float) -> str:
        raise EngineError(outcome, "refused", retry_after_s)

    return fail


def _later(request):
    async def run(left_s: float) -> str:
        await asyncio.sleep(0.01)
        return await request(left_s)

    return run


async def test_refusal_starts_a_cooldown(egress, now_s):
    """Requests then fail immediately, with the time left; others are informed once."""
    informed = []
    egress.on_refused = lambda: informed.append(1)
    assert await egress.use("a", 5.0, succeed) == "page"
    with pytest.raises(EngineError):
        await egress.use("a", 5.0, failing(Outcome.CHALLENGE))
    now_s[0] += 600
    with pytest.raises(Fault) as caught:
        await egress.use("a", 5.0, succeed)
    assert caught.value.code == "upstream_blocked"
    assert caught.value.failure.retry_after_ms == 3_000_000
    assert informed == [1]


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.UNKNOWN_MARKUP])
async def test_other_failures_start_none(egress, outcome):
    """They do not concern the address."""
    with pytest.raises(EngineError):
        await egress.use("a", 5.0, failing(outcome))
    assert await egress.use("a", 5.0, succeed) == "page"


async def test_probe_after_the_cooldown_decides(egress, now_s):
    """A refused probe doubles the cooldown; a successful one ends it."""
    with pytest.raises(EngineError):
        await egress.use("a", 5.0, failing(Outcome.CHALLENGE))
    assert not await egress.probe(succeed, 5.0)  # too early: nothing is sent
    now_s[0] += 3600
    assert not await egress.probe(failing(Outcome.CHALLENGE), 5.0)
    assert egress.breaker.remaining_s == 7200
    now_s[0] += 7200
    assert await egress.probe(succeed, 5.0)
    assert await egress.use("a", 5.0, succeed) == "page"


async def test_only_the_refusal_that_opens_the_breaker_slows_the_pace(now_s):
    """Neither replies to what was sent before, nor probes."""
    egress = Egress("test", None, Pace(2.0), clock=lambda: now_s[0])
    refused = failing(Outcome.CHALLENGE)
    sent = [asyncio.create_task(egress.use("a", 60.0, _later(refused))) for _ in range(2)]
    await asyncio.gather(*sent, return_exceptions=True)
    for _ in range(5):
        now_s[0] += 24 * 3600
        assert not await egress.probe(refused, 5.0)
    assert 3.9 < egress.pace.interval_s <= 4.0


async def test_refusal_turns_away_those_who_wait_for_their_turns():
    """They can go to other workers at once, and do not wait for turns that nobody gets."""
    egress = Egress("test", None, Pace(3600.0))
    going = asyncio.Event()

    async def refused(left_s: float) -> str:
        await going.wait()
        raise EngineError(Outcome.CHALLENGE, "refused")

    first, *waiting = [asyncio.create_task(egress.use("a", 1e6, refused)) for _ in range(5)]
    await asyncio.sleep(0)
    going.set()
    failures = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
    assert [failure.code for failure in failures] == ["upstream_blocked"] * 4
    await asyncio.gather(first, return_exceptions=True)


async def test_suspicion_turns_nobody_away(now_s):
    """It may be over before their turns."""
    egress = Egress("test", None, Pace(0.05), clock=lambda: now_s[0])
    with pytest.raises(EngineError):
        await egress.use("a", 60.0, failing(Outcome.BLANK))
    waiting = asyncio.create_task(egress.pace.slot("a", 60.0))
    now_s[0] += 5
    assert await egress.probe(succeed, 5.0)
    await waiting


async def test_turn_that_leaves_no_time_for_a_reply_is_refused_as_our_own_pace():
    """At once: else DuckDuckGo would be said not to have answered in time."""
    egress = Egress("test", None, Pace(29.0))
    assert await egress.use("a", 30.0, succeed) == "page"
    with pytest.raises(Fault, match="sends them at a limited pace") as caught:
        await egress.use("a", 30.0, succeed)
    assert caught.value.code == "overloaded"
    assert 28_000 < caught.value.failure.retry_after_ms <= 29_000


async def test_inconclusive_probe_is_repeated_after_a_while(egress, now_s):
    """A timeout leaves the address refused."""
    with pytest.raises(EngineError):
        await egress.use("a", 5.0, failing(Outcome.RATE_LIMITED))
    now_s[0] += 180
    assert not await egress.probe(failing(Outcome.TIMEOUT), 5.0)
    assert egress.breaker.remaining_s > 0


async def test_blank_page_cools_down_shortly_and_a_probe_clears_the_address(egress, now_s):
    """Further blank pages are then held against their queries, for a minute."""
    with pytest.raises(EngineError) as caught:
        await egress.use("a", 5.0, failing(Outcome.BLANK))
    assert caught.value.outcome is Outcome.BLANK
    assert egress.breaker.remaining_s == 5.0
    now_s[0] += 5
    assert await egress.probe(succeed, 5.0)
    with pytest.raises(EngineError) as caught:
        await egress.use("a", 5.0, failing(Outcome.BLANK))
    assert caught.value.outcome is Outcome.QUERY_REFUSED
    assert await egress.use("a", 5.0, succeed) == "page"
    now_s[0] += VOUCHED_S
    with pytest.raises(EngineError) as caught:
        await egress.use("a", 5.0, failing(Outcome.BLANK))
    assert caught.value.outcome is Outcome.BLANK


async def test_blank_page_of_the_probe_is_a_refusal(egress, now_s):
    """With the cooldown of a challenge."""
    with pytest.raises(EngineError):
        await egress.use("a", 5.0, failing(Outcome.BLANK))
    now_s[0] += 5
    assert not await egress.probe(failing(Outcome.BLANK), 5.0)
    assert egress.breaker.remaining_s == 3600.0


async def test_suspicion_ends_where_the_probe_shows_no_refusal(egress, now_s):
    """A timeout proves nothing; the next blank page is a suspicion again."""
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            await egress.use("a", 5.0, failing(Outcome.BLANK))
        assert caught.value.outcome is Outcome.BLANK
        now_s[0] += 5
        assert await egress.probe(failing(Outcome.TIMEOUT), 5.0)


def test_cooldown_is_at_least_what_was_asked_for():
    """Different for challenges and rate limits."""
    cooldowns = Cooldowns(challenge_s=100.0, rate_limited_s=10.0)
    assert cooldowns.after(EngineError(Outcome.CHALLENGE, "x")) == 100.0
    assert cooldowns.after(EngineError(Outcome.RATE_LIMITED, "x")) == 10.0
    assert cooldowns.after(EngineError(Outcome.RATE_LIMITED, "x", 60.0)) == 60.0


def test_identity_of_an_address():
    """A proxy is one address for all machines; others belong to one; no password can be read."""
    assert egress_id("http://u:secret@p:3128", "a") == egress_id("http://u:secret@p:3128", "b")
    assert egress_id("direct", "a") != egress_id("direct", "b")
    assert egress_id("bind:10.0.0.1", "a") != egress_id("bind:10.0.0.2", "a")
    assert "secret" not in egress_id("http://u:secret@p:3128")


@pytest.mark.parametrize("egress", ["direct", "bind:127.0.0.7", "http://proxy.example:3128"])
async def test_client_of_each_kind_of_egress(egress):
    """Without a browser to imitate it is httpx's."""
    client = open_client(egress)
    assert isinstance(client, HttpClient)
    await client.close()


class FakeSession:
    """Plays curl_cffi.requests.AsyncSession."""

    made: ClassVar[list[dict[str, object]]] = []
    sent: ClassVar[list[tuple[str, str, dict[str, object]]]] = []

    def __init__(self, **options) -> None:
        self.made.append(options)

    @asynccontextmanager
    async def stream(self, method, url, **options):
        self.sent.append((method, url, options))
        if "fail" in url:
            raise RuntimeError("curl: (35)")
        if "hang" in url:
            await asyncio.sleep(3600)

        async def chunks():
            yield b"hello "
            yield b"world"

        yield SimpleNamespace(status_code=200, headers={"X-A": "1"}, aiter_content=chunks)

    async def close(self) -> None:
        pass


@pytest.fixture
def client(monkeypatch):
    requests = ModuleType("curl_cffi.requests")
    requests.AsyncSession = FakeSession
    monkeypatch.setitem(sys.modules, "curl_cffi", ModuleType("curl_cffi"))
    monkeypatch.setitem(sys.modules, "curl_cffi.requests", requests)
    FakeSession.made, FakeSession.sent = [], []
    return open_client("http://proxy:3128", impersonate="chrome")


async def test_request_keeps_the_browsers_own_headers(client):
    """User-Agent and Accept are not overridden; redirects and the environment are ignored."""
    headers = {"User-Agent": "x", "Accept": "y", "Referer": "z"}
    request = HttpRequest("POST", "https://a.example.com/", headers=headers, form={"q": "cats"})
    reply = await client.send(request, timeout_s=30, max_bytes=100)
    assert (reply.status, reply.body, reply.headers) == (200, b"hello world", {"x-a": "1"})
    ((method, url, options),) = FakeSession.sent
    assert (method, url) == ("POST", "https://a.example.com/")
    assert options["headers"] == {"Referer": "z"}
    assert options["data"] == {"q": "cats"}
    assert options["allow_redirects"] is False
    assert FakeSession.made == [
        {"impersonate": "chrome", "proxy": "http://proxy:3128", "interface": None,
         "trust_env": False}
    ]  # fmt: skip
    await client.close()


async def test_failures_are_those_of_every_client(client):
    """Timeouts, errors of curl, bodies over the limit."""
    with pytest.raises(UpstreamTimeoutError):
        await client.send(HttpRequest("GET", "https://hang"), timeout_s=0.01, max_bytes=100)
    with pytest.raises(UpstreamUnreachableError, match="RuntimeError"):
        await client.send(HttpRequest("GET", "https://fail"), timeout_s=30, max_bytes=100)
    with pytest.raises(UpstreamUnreachableError) as caught:
        await client.send(HttpRequest("GET", "https://a"), timeout_s=30, max_bytes=8)
    assert caught.value.kind == "too_large"


def test_missing_dependency_is_named(monkeypatch):
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "curl_cffi.requests", None)
    with pytest.raises(RuntimeError, match="pip install curl-cffi"):
        ImpersonatingClient("chrome")
