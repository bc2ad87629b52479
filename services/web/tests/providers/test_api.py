"""Calls to an API: keys in rotation, cooldowns, retries, decoding."""

from __future__ import annotations

import asyncio
import json

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Actor, Fault
from searchbus_upstream import (
    HttpReply,
    HttpRequest,
    UpstreamUnreachableError,
)
from searchbus_web.providers import PROVIDERS
from searchbus_web.providers.api import ApiProvider, reason_in
from searchbus_web.providers.base import Query
from searchbus_web.providers.tavily import Tavily


class Api(ApiProvider):
    """An API whose failures have one code."""

    name = group = "test"
    title = "Test"

    @classmethod
    def fault_of(cls, reply: HttpReply) -> Fault | None:
        if reply.status < 300:
            return None
        return Fault("upstream_failed", f"HTTP {reply.status}", retryable=reply.status >= 500)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Retries follow at once."""

    async def sleep(seconds, _sleep=asyncio.sleep):
        await _sleep(0)

    monkeypatch.setattr("searchbus_upstream.retries.asyncio.sleep", sleep)


def api_of(client, *keys: str, **options) -> Api:
    return Api(client, "http://x", keys or ("k",), **options)


async def call(api: Api, timeout_s: float = 60.0):
    def request(key: str) -> HttpRequest:
        return HttpRequest("GET", "http://x", headers={"key": key})

    return await api.call(request, dict[str, int], timeout_s=timeout_s)


def keys_of(client) -> list[str]:
    return [request.headers["key"] for request in client.requests]


async def test_keys_are_those_of_now(fake_client):
    """A key that was refused stays so; one that comes is used at once, one that went is not."""
    keys = ["old"]
    client = fake_client(
        *[HttpReply(200, b"{}")] * 2, HttpReply(401, b""), *[HttpReply(200, b"{}")] * 3
    )
    api = Api(client, "http://x", lambda: keys)
    await call(api)
    keys[:] = ["old", "new"]
    for _ in range(3):
        await call(api)
    assert keys_of(client)[0] == "old"
    assert set(keys_of(client)) == {"old", "new"}
    keys[:] = ["new"]
    await call(api)
    assert keys_of(client)[-1] == "new"


async def test_keys_take_turns(fake_client):
    """The reply is decoded as its type."""
    client = fake_client({"a": 1}, {"a": 2}, {"a": 3})
    api = api_of(client, "k1", "k2")
    assert [await call(api) for _ in range(3)] == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert keys_of(client) == ["k1", "k2", "k1"]


@pytest.mark.parametrize("status", [401, 403, 432, 433])
async def test_refused_key_is_left_out(fake_client, status):
    """The request succeeds with another key."""
    client = fake_client(HttpReply(status, b""), {}, {}, {})
    api = api_of(client, "bad", "good")
    for _ in range(3):
        await call(api)
    assert keys_of(client) == ["bad", "good", "good", "good"]


async def test_no_usable_key_is_an_exhausted_quota(fake_client):
    """With the time until the next attempt; nothing is sent."""
    client = fake_client(HttpReply(401, b""))
    api = api_of(client)
    with pytest.raises(Fault) as first:
        await call(api)
    assert first.value.failure.message == "HTTP 401"
    assert not api.usable
    with pytest.raises(Fault) as caught:
        await call(api)
    assert caught.value.code == "quota_exhausted"
    assert 3_500_000 < caught.value.failure.retry_after_ms <= 3_600_000
    assert len(client.requests) == 1


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (
            UpstreamUnreachableError("ConnectError", sent=False),
            "cannot be reached (ConnectError)",
        ),
        (HttpReply(503, b""), "HTTP 503"),
    ],
)
async def test_failures_before_any_work_are_retried(fake_client, outcome, said):
    """Three attempts in all."""
    client = fake_client(outcome, outcome, {})
    assert await call(api_of(client)) == {}
    client = fake_client(*[outcome] * 3)
    with pytest.raises(Fault) as caught:
        await call(api_of(client))
    assert caught.value.code == "upstream_failed"
    assert said in caught.value.failure.message


@pytest.mark.parametrize("body", [b"<html>", b'{"a": "text"}', b"[" * 100_000, b"\xff"])
async def test_unreadable_reply_is_not_retried(fake_client, body):
    """The API has changed, or this is not the API."""
    client = fake_client(body)
    with pytest.raises(Fault, match="cannot be read"):
        await call(api_of(client))
    assert len(client.requests) == 1


@pytest.mark.parametrize(("asked", "most_s"), [("500", 501), ("1769000000", 3601)])
async def test_limit_of_the_provider_pauses_every_replica(fake_client, asked, most_s):
    """For as long as the provider asks, an hour at most: some send a time of day for the seconds."""
    kv = MemoryKeyValue(ttl_s=3600)
    client = fake_client(HttpReply(429, b"", {"retry-after": asked}))
    with pytest.raises(Fault):
        await call(api_of(client, kv=kv, rate_per_minute=6000))
    with pytest.raises(Fault) as caught:
        await call(api_of(client, kv=kv, rate_per_minute=6000))
    assert caught.value.code == "rate_limited"
    assert most_s - 100 < caught.value.failure.retry_after_ms / 1000 <= most_s
    assert len(client.requests) == 1


async def test_slot_that_leaves_no_time_for_the_reply_is_refused(fake_client):
    """The call would be paid for and time out. Of the provider's limit 95 % is used."""
    client = fake_client({}, {})
    api = api_of(client, rate_per_minute=1)
    for _ in range(2):
        await call(api)
    with pytest.raises(Fault) as caught:
        await call(api)
    assert caught.value.code == "rate_limited"
    assert 60_000 < caught.value.failure.retry_after_ms <= 60_000 / 0.95 + 1
    assert len(client.requests) == 2


async def test_key_is_probed_by_one_request_after_its_cooldown():
    """While that one is under way no other uses the key; an inconclusive one decides nothing."""
    outcomes = [401, "hang", 200, 200]
    now_s = [1000.0]
    under_way = asyncio.Event()

    class Client:
        async def send(self, request, *, timeout_s, max_bytes):
            status = outcomes.pop(0)
            if status == "hang":
                under_way.set()
                await asyncio.Event().wait()
            return HttpReply(status, b"{}")

        async def close(self):
            pass

    api = api_of(Client())
    breaker = api._keys[0].breaker
    breaker._clock = lambda: now_s[0]
    with pytest.raises(Fault):
        await call(api)
    with pytest.raises(Fault) as cooling_down:
        await call(api)
    assert cooling_down.value.code == "quota_exhausted"
    now_s[0] += 3601
    assert api.usable
    probe = asyncio.create_task(call(api))
    await under_way.wait()
    assert not api.usable
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    assert api.usable
    assert await call(api) == {}
    assert breaker.closed


ROW = {"url": "https://a.org/", "title": "A"}
SHAPES = [
    b"", b"null", b"[]", b'"text"', b"7", b"{}", b"<html>", b'{"results"', b'{"results": null}',
    b'{"results": "none"}', b'{"results": {}}', b'{"results": [null]}', b'{"results": ["row"]}',
    b'{"results": [{"title": "A"}]}', b'{"results": [{"url": null}, {"url": 7}]}',
    b'{"results": [{"url": "ftp://a.org/"}, {"url": ""}, {"url": "javascript:alert(1)"}]}',
    b"[" * 100_000,
]  # fmt: skip
TOLD = [
    ({"detail": {"error": "quota"}}, "quota_exhausted", False),
    ({"detail": {"error": "You have no credits left."}}, "quota_exhausted", False),
    ({"error": {"code": "rate_limited", "message": "Slow down"}}, "upstream_limited", True),
    ({"error": "Too many requests"}, "upstream_limited", True),
    ({"detail": [{"loc": ["a", 1], "msg": "is wrong"}]}, "upstream_failed", False),
    ({"message": "Internal error"}, "upstream_failed", False),
]


@pytest.fixture
def ask(fake_client, monkeypatch):
    """Search with a provider that gives one reply always."""

    async def ask(provider: str, body: bytes, topic: str = "general"):
        client = fake_client(*[HttpReply(200, body)] * 3)
        query = Query("whales", 10, topic=topic)
        found = PROVIDERS[provider](client, "https://x.example", ["key"])
        return await found.search(query, actor=Actor(subject="a"), timeout_s=60.0)

    return ask


@pytest.mark.parametrize("topic", ["general", "news"])
@pytest.mark.parametrize("provider", ["tavily", "brave", "searxng"])
@pytest.mark.parametrize("body", SHAPES, ids=lambda body: body[:30].decode())
async def test_reply_without_readable_rows_is_a_failure(ask, provider, body, topic):
    """It is not retried, since the next one has the same shape."""
    with pytest.raises(Fault) as caught:
        await ask(provider, body, topic)
    assert (caught.value.code, caught.value.failure.retryable) == ("upstream_failed", False)
    assert "cannot be read. Use another search tool." in caught.value.failure.message


@pytest.mark.parametrize("body", [b'{"web": {}}', b'{"web": {"results": null}}', b'{"web": []}'])
async def test_rows_of_the_web_may_be_wrong_as_well(ask, body):
    """Brave has them one level lower."""
    with pytest.raises(Fault, match="cannot be read"):
        await ask("brave", body)


@pytest.mark.parametrize("provider", ["tavily", "brave", "searxng"])
@pytest.mark.parametrize(("told", "code", "retryable"), TOLD)
async def test_failure_told_in_a_success_has_its_code(ask, provider, told, code, retryable):
    """With the provider's own words."""
    with pytest.raises(Fault) as caught:
        await ask(provider, json.dumps(told).encode())
    assert (caught.value.code, caught.value.failure.retryable) == (code, retryable)


@pytest.mark.parametrize("provider", ["tavily", "searxng"])
async def test_failure_beside_an_empty_list_is_a_failure(ask, provider):
    """Beside rows it is none."""
    with pytest.raises(Fault, match="used up: quota"):
        await ask(provider, b'{"results": [], "error": "quota"}')
    body = json.dumps({"results": [ROW], "error": "quota"}).encode()
    assert len((await ask(provider, body)).results) == 1


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("tavily", b'{"results": []}'),
        ("searxng", b'{"results": [], "unresponsive_engines": []}'),
        ("brave", b'{"type": "search", "query": {"original": "q"}}'),
        ("brave", b'{"results": []}'),
        ("brave", b'{"web": {"results": []}}'),
    ],
)
async def test_list_without_rows_is_empty(ask, provider, body):
    """Brave leaves out the list of a search that finds nothing."""
    assert (await ask(provider, body)).results == ()


@pytest.mark.parametrize("provider", ["tavily", "brave", "searxng"])
@pytest.mark.parametrize(
    "broken", [None, "row", [], {}, {"url": None}, {"url": 7}, {"url": "/a"}, {**ROW, "title": {}}]
)
async def test_malformed_row_loses_itself_only(ask, provider, broken, caplog):
    """It is logged; odd fields beside the rows do not matter."""
    rows = [{"url": f"https://a{n}.org/", "title": "A"} for n in range(9)]
    rows.insert(4, broken)
    body = {"results": rows, "usage": "?", "request_id": 7, "unresponsive_engines": "?"}
    found = await ask(provider, json.dumps(body).encode(), "news")
    assert len(found.results) == 9
    assert "1 of 10 rows cannot be read" in caplog.text


@pytest.mark.parametrize("provider", ["tavily", "brave", "searxng"])
async def test_nan_and_broken_characters_cost_no_row(ask, provider):
    """Servers written in Python send NaN."""
    row = b'{"url": "https://a.org/", "title": "a \\ud800 b", "score": NaN}'
    found = await ask(provider, b'{"results": [' + row + b"]}", "news")
    assert found.results[0].title == "a ? b"


async def test_page_texts_have_the_same_rules(fake_client):
    """Pages that it could not read have none."""
    client = fake_client({}, {"results": [], "failed_results": [None, {"url": "https://a.org/"}]})
    provider = Tavily(client, "https://x.example", ["key"])
    with pytest.raises(Fault, match="cannot be read"):
        await provider.extract(["https://a.org/"], timeout_s=5.0)
    assert await provider.extract(["https://a.org/"], timeout_s=5.0) == {}


def fault(status: int, headers: dict[str, str] | None = None):
    return Tavily.fault_of(HttpReply(status, b"", headers or {})).failure


def test_refused_key_is_the_operators_to_mend():
    """It is not retried; the setting is named."""
    failure = fault(401)
    assert (failure.code, failure.retryable) == ("upstream_failed", False)
    assert "SEARCHBUS_TAVILY_API_KEYS" in failure.message


def test_limit_has_the_wait_of_the_reply():
    """The provider's default where the reply has none is in the test of each."""
    failure = fault(429, {"retry-after": "30"})
    assert (failure.code, failure.retry_after_ms) == ("upstream_limited", 30_000)


@pytest.mark.parametrize("status", [408, 500, 503])
def test_failure_of_the_server_may_be_retried(status):
    """The message names the status."""
    failure = fault(status)
    assert (failure.code, failure.retryable) == ("upstream_failed", True)
    assert f"HTTP {status}. Try again" in failure.message


@pytest.mark.parametrize("status", [302, 404, 405, 410])
def test_wrong_address_is_the_operators_to_mend(status):
    """The same request would fail again: the message says what to do instead."""
    failure = fault(status)
    assert (failure.code, failure.retryable) == ("upstream_failed", False)
    for part in (f"HTTP {status}", "SEARCHBUS_TAVILY_URL", "another search tool"):
        assert part in failure.message
    assert "Try again" not in failure.message


def test_words_of_a_provider_are_one_line_of_plain_text():
    """They are read by a model, like a title."""
    told = "Quota \u202e exceeded\n\n\x1b[31m now" + " x" * 1000
    reason = reason_in(json.dumps({"detail": {"error": told}}).encode())
    assert reason.startswith("Quota exceeded")
    assert "\n" not in reason
    assert "\x1b" not in reason
    assert len(reason) <= 501
