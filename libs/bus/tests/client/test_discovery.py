"""All workers are asked who they are; see also test_behaviour."""

from __future__ import annotations

import json

from searchbus_bus import Bus


async def test_discovery_ignores_services_of_others(transport):
    """And replies that are not JSON."""

    def info(name: str, instance: str, **metadata: str) -> bytes:
        body = {"name": name, "id": instance, "version": "1", "metadata": metadata}
        return json.dumps(body).encode()

    replies = [
        info("b", "2", searchbus="v1", catalog="c", started_ms="12"),
        info("a", "1", searchbus="v1"),
        info("foreign", "3"),
        b"garbage",
        b"[" * 100_000,
        b'{"name": 1}',
    ]

    async def reply(message):
        for body in replies:
            await transport.reply(message, body)

    transport.on_publish = reply
    first, second = await Bus(transport).workers(quiet_s=0)
    assert (first.service, first.catalog, first.started_ms) == ("a", "", 0)
    assert (second.service, second.instance, second.catalog, second.started_ms) == (
        "b",
        "2",
        "c",
        12,
    )


async def test_worker_of_another_version_is_left_out_and_said_once(transport, caplog):
    """Its tools would be missing without a word."""

    async def reply(message):
        metadata = {"searchbus": "v2"}
        body = {"name": "new", "id": "N1", "version": "1", "metadata": metadata}
        await transport.reply(message, json.dumps(body).encode())

    transport.on_publish = reply
    bus = Bus(transport)
    assert await bus.workers(quiet_s=0) == await bus.workers(quiet_s=0) == []
    (line,) = caplog.messages
    assert "'new' ('N1') uses version 'v2' of the wire, this process v1" in line


async def test_known_services_are_asked_though_nobody_named_them(transport):
    """They may have been too busy for the first question."""

    async def reply(message):
        if message.subject == "$SRV.INFO.slow":
            await transport.reply(message, json.dumps(
                {"name": "slow", "id": "1", "version": "1", "metadata": {"searchbus": "v1"}}
            ).encode())  # fmt: skip

    transport.on_publish = reply
    (worker,) = await Bus(transport).workers(quiet_s=0, known={"slow": 1, "no token": 1})
    assert worker.service == "slow"


async def test_a_service_is_waited_for_while_it_has_workers(transport):
    """A busy one replies late; where there is no worker, nobody waits."""
    waits = []

    async def reply(message):
        if message.subject == "$SRV.INFO.away":
            await transport.reply(message, b"", Status="503")

    async def replies_arrived(window_s, complete):
        waits.append(window_s > 0)
        for message in transport.published:
            if message.subject == "$SRV.INFO.slow":
                await transport.reply(message, json.dumps(
                    {"name": "slow", "id": "1", "version": "1", "metadata": {"searchbus": "v1"}}
                ).encode())  # fmt: skip

    transport.on_publish, transport.replies_arrived = reply, replies_arrived
    bus = Bus(transport)
    assert await bus.workers(quiet_s=0, patience_s=60, known={"away": 1}) == []
    assert waits == [False]
    (worker,) = await bus.workers(quiet_s=0, patience_s=60, known={"away": 1, "slow": 1})
    assert worker.service == "slow"
    assert waits == [False, False, True]
