"""Calls to an API: keys in rotation, cooldowns, retries, decoding."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Fault
from searchbus_upstream import Reply, Request, UpstreamTimeout, UpstreamUnreachable
from searchbus_web.providers.account import Account


def fault_of(reply: Reply) -> Fault | None:
    if reply.status == 200:
        return None
    return Fault("upstream_failed", f"HTTP {reply.status}", retryable=reply.status >= 500)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Retries follow at once."""

    async def sleep(seconds, _sleep=asyncio.sleep):
        await _sleep(0)

    monkeypatch.setattr("searchbus_upstream.retries.asyncio.sleep", sleep)


def account_of(client, *keys: str, **options) -> Account:
    return Account("Test", client, keys or ("k",), fault_of=fault_of, **options)


async def call(account: Account, timeout_s: float = 60.0):
    def request(key: str) -> Request:
        return Request("GET", "http://x", headers={"key": key})

    return await account.call(request, dict[str, int], timeout_s=timeout_s)


def keys_of(client) -> list[str]:
    return [request.headers["key"] for request in client.requests]


async def test_keys_take_turns(fake_client):
    """The reply is decoded as its type."""
    client = fake_client({"a": 1}, {"a": 2}, {"a": 3})
    account = account_of(client, "k1", "k2")
    assert [await call(account) for _ in range(3)] == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert keys_of(client) == ["k1", "k2", "k1"]


@pytest.mark.parametrize("status", [401, 403, 432, 433])
async def test_refused_key_is_left_out(fake_client, status):
    """The request succeeds with another key."""
    client = fake_client(Reply(status, b""), {}, {}, {})
    account = account_of(client, "bad", "good")
    for _ in range(3):
        await call(account)
    assert keys_of(client) == ["bad", "good", "good", "good"]


async def test_no_usable_key_is_an_exhausted_quota(fake_client):
    """With the time until the next attempt; nothing is sent."""
    client = fake_client(Reply(401, b""))
    account = account_of(client)
    with pytest.raises(Fault) as first:
        await call(account)
    assert first.value.failure.message == "HTTP 401"
    assert not account.usable
    with pytest.raises(Fault) as caught:
        await call(account)
    assert caught.value.code == "quota_exhausted"
    assert 3_500_000 < caught.value.failure.retry_after_ms <= 3_600_000
    assert len(client.requests) == 1


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (UpstreamTimeout("x"), "did not answer in time"),
        (UpstreamUnreachable("ConnectError"), "cannot be reached (ConnectError)"),
        (Reply(500, b""), "HTTP 500"),
    ],
)
async def test_failures_of_the_server_are_retried(fake_client, outcome, said):
    """Three attempts in all."""
    client = fake_client(outcome, outcome, {})
    assert await call(account_of(client)) == {}
    client = fake_client(*[outcome] * 3)
    with pytest.raises(Fault) as caught:
        await call(account_of(client))
    assert caught.value.code == "upstream_failed"
    assert said in caught.value.failure.message


@pytest.mark.parametrize("body", [b"<html>", b'{"a": "text"}', b"[" * 100_000, b"\xff"])
async def test_unreadable_reply_is_not_retried(fake_client, body):
    """The API has changed, or this is not the API."""
    client = fake_client(body)
    with pytest.raises(Fault, match="cannot be read"):
        await call(account_of(client))
    assert len(client.requests) == 1


async def test_limit_of_the_provider_pauses_every_replica(fake_client):
    """For as long as the provider asks."""
    kv = MemoryKeyValue(ttl_s=3600)
    client = fake_client(Reply(429, b"", {"retry-after": "500"}))
    with pytest.raises(Fault):
        await call(account_of(client, kv=kv, rate_per_minute=6000))
    with pytest.raises(Fault) as caught:
        await call(account_of(client, kv=kv, rate_per_minute=6000))
    assert caught.value.code == "rate_limited"
    assert len(client.requests) == 1


async def test_slot_that_leaves_no_time_for_the_reply_is_refused(fake_client):
    """The call would be paid for and time out."""
    client = fake_client({}, {})
    account = account_of(client, rate_per_minute=1)
    for _ in range(2):
        await call(account)
    with pytest.raises(Fault) as caught:
        await call(account)
    assert caught.value.code == "rate_limited"
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
            return Reply(status, b"{}")

        async def close(self):
            pass

    account = account_of(Client())
    breaker = account._keys[0].breaker
    breaker._clock = lambda: now_s[0]
    with pytest.raises(Fault):
        await call(account)
    with pytest.raises(Fault) as cooling_down:
        await call(account)
    assert cooling_down.value.code == "quota_exhausted"
    now_s[0] += 3601
    assert account.usable
    probe = asyncio.create_task(call(account))
    await under_way.wait()
    assert not account.usable
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    assert account.usable
    assert await call(account) == {}
    assert breaker.closed
