"""What a service that was taken over can do with JetStream, which checks no lists of subjects."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from searchbus_cli.secure import store_account, with_buckets
from searchbus_runtime.services import bus_users
from searchbus_testing import until

from .jetstream_api import requests_about
from .locked_bus import LockedBus

SERVICES = bus_users()
HOLDERS = with_buckets(SERVICES)
TARGETS = (
    "sb.v1.retrieval.delete",
    "sb.v1.evt.catalog.web",
    "_INBOX_edge.x.web.y",
    "$KV.sb_limits.x",
)
"""Subjects at which a message of a stranger would have an effect."""


async def ask(client: Client, request: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One request to JetStream's API."""
    data = json.dumps(body).encode() if body is not None else b""
    reply = await client.request(f"$JS.API.{request}", data, timeout=10)
    found: dict[str, Any] = json.loads(reply.data)
    return found


async def messages_in(client: Client, stream: str) -> int:
    """How many a stream holds."""
    return int((await ask(client, f"STREAM.INFO.{stream}"))["state"]["messages"])


@pytest.fixture
async def elsewhere(locked_bus: LockedBus, attacker: str):
    """Everything that arrives in the accounts of the others, while a test runs."""
    seen: list[str] = []

    async def note(message: Msg) -> None:
        if not message.subject.startswith("traffic."):
            seen.append(message.subject)

    async with AsyncExitStack() as exit_:
        for account in locked_bus.witnesses:
            if account != store_account(attacker):
                witness = await exit_.enter_async_context(locked_bus.witness(account))
                await witness.subscribe(">", cb=note)
                await witness.flush()
        yield seen


@pytest.mark.parametrize("name", sorted(SERVICES))
async def test_no_service_reaches_jetstream_on_the_bus(locked_bus, name):
    """Each request of its API, about its own streams and those of others, is refused."""
    owner = "ddg" if name != "ddg" else "web"
    bucket = SERVICES[owner].buckets[0]
    refused = 0

    async def count(error: Exception) -> None:
        nonlocal refused
        refused += "permissions violation" in str(error).lower()

    async with locked_bus.store_user(owner) as other, locked_bus.user(name, count) as service:
        await other.jetstream().create_key_value(bucket=f"sb_{bucket}", storage="memory")
        tried = requests_about(
            "probe", *(f"KV_sb_{own}" for s in SERVICES.values() for own in s.buckets)
        )
        for subject in tried:
            await service.publish(subject, b"{}", reply=f"_INBOX_{name}.x")
            await service.flush()
        await until(lambda: refused == len(tried))
        assert (await ask(other, "STREAM.NAMES"))["streams"] == [f"KV_sb_{bucket}"]


@pytest.mark.parametrize("attacker", HOLDERS)
async def test_a_stream_copies_nothing_of_others(locked_bus, attacker):
    """Whatever subjects it names, in its own bucket's name or another: their messages do not reach it."""
    async with AsyncExitStack() as exit_:
        thief = await exit_.enter_async_context(locked_bus.store_user(attacker))
        bus = await exit_.enter_async_context(locked_bus.witness())
        others = [name for name in HOLDERS if name != attacker]
        for name in others:
            owner = await exit_.enter_async_context(locked_bus.store_user(name))
            bucket = await owner.jetstream().create_key_value(
                bucket=f"sb_{SERVICES[name].buckets[0]}", storage="memory"
            )
            await bucket.put("secret", b"1")
        for number, subject in enumerate(("sb.>", "_INBOX_cli.>", "$SRV.>", "traffic.>")):
            made = await ask(thief, f"STREAM.CREATE.copy{number}",
                             {"name": f"copy{number}", "subjects": [subject], "storage": "memory"})  # fmt: skip
            assert "error" not in made
        for subject in ("sb.v1.retrieval.search", "_INBOX_cli.x.web.y", "$SRV.INFO", "traffic.a"):
            await bus.publish(subject, b"private")
        await bus.flush()
        for name in others:
            stream = f"KV_sb_{SERVICES[name].buckets[0]}"
            await ask(thief, f"STREAM.CREATE.mirror_{name}",
                      {"name": f"mirror_{name}", "mirror": {"name": stream}, "storage": "memory"})  # fmt: skip
            assert "error" in await ask(thief, f"STREAM.INFO.{stream}")
        await thief.publish("traffic.own", b"1")
        # Its own message arrives, so the others had their time.
        async with asyncio.timeout(60):
            while not await messages_in(thief, "copy3"):
                await asyncio.sleep(0.01)
        assert [await messages_in(thief, f"copy{n}") for n in range(4)] == [0, 0, 0, 1]
        for name in others:
            assert await messages_in(thief, f"mirror_{name}") == 0


@pytest.mark.parametrize("attacker", HOLDERS)
async def test_jetstream_delivers_nothing_to_others(locked_bus, attacker, elsewhere):
    """Neither as a reply, nor from a consumer, nor by publishing again."""
    async with locked_bus.store_user(attacker) as thief:
        heard: list[str] = []

        async def note(message: Msg) -> None:
            heard.append(message.subject)

        for target in TARGETS:
            await thief.subscribe(target, cb=note)
        await ask(thief, "STREAM.CREATE.mine", {
            "name": "mine", "subjects": ["mine.>"], "storage": "memory", "allow_direct": True,
            "republish": {"src": "mine.again", "dest": TARGETS[0]},
        })  # fmt: skip
        stored = {"Actor": "forged"}
        await thief.publish("mine.a", b"attack", headers=stored, reply=TARGETS[1])
        await thief.publish("mine.again", b"attack")
        await thief.flush()
        for number, target in enumerate(TARGETS):
            await thief.publish("$JS.API.DIRECT.GET.mine.mine.a", b"", reply=target)
            await thief.publish("$JS.API.STREAM.INFO.mine", b"", reply=target)
            await ask(thief, f"CONSUMER.CREATE.mine.c{number}", {
                "stream_name": "mine",
                "config": {"name": f"c{number}", "deliver_subject": target, "ack_policy": "none"},
            })  # fmt: skip
        # JetStream did what it was asked to: in the account of the one who asked.
        await until(lambda: set(TARGETS) <= set(heard), message=lambda: str(heard))
        async with AsyncExitStack() as exit_:
            for account in locked_bus.witnesses:
                witness = await exit_.enter_async_context(locked_bus.witness(account))
                await witness.publish("traffic.end", b"")
                await witness.flush()
        assert elsewhere == []


async def test_a_key_of_the_store_is_none_of_the_bus(locked_bus):
    """No service answers there."""
    for name in HOLDERS:
        async with locked_bus.store_user(name) as thief:
            with pytest.raises(NoRespondersError):
                await thief.request("$SRV.PING", b"", timeout=10)
