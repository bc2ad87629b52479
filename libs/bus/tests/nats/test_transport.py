"""The NATS side of the transport. See also test_behaviour and test_faults_on_nats."""

from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace

import nats.errors
import pytest

from searchbus_bus import Seeds, connect
from searchbus_bus.nats import transport as transport
from searchbus_bus.nats.overrides import BusClient
from searchbus_bus.nats.transport import NatsAnnouncement, NatsSubscription, NatsTransport, _kind_of
from searchbus_cli.secure import new_seed, public_key
from searchbus_contracts import Fault
from searchbus_testing import at_last, until


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (nats.errors.Error("nats: permissions violation for publish"), "permission"),
        (nats.errors.Error("Permissions Violation for Subscription"), "permission"),
        (nats.errors.SlowConsumerError("s", "r", 1, None), "slow_consumer"),
        (nats.errors.Error("something else"), "other"),
    ],
)
def test_errors_of_the_server_are_counted_by_kind(error, kind):
    """The labels of a metric."""
    assert _kind_of(error) == kind


async def test_an_inbox_has_the_prefix_of_the_service(nats_server):
    """Permissions allow no other."""
    transport = await NatsTransport.connect(nats_server.url, name="t", inbox_prefix="_INBOX_web")
    assert transport.new_inbox().startswith("_INBOX_web.")
    assert transport.max_payload_bytes == 1024 * 1024
    await transport.close()


async def test_a_message_keeps_subject_body_reply_and_headers(nats_server):
    """Through the server."""
    transport = await NatsTransport.connect(nats_server.url, name="t")
    found = []

    async def callback(message):
        found.append(message)

    subject = transport.new_inbox()
    await transport.subscribe(subject, callback)
    await transport.publish(subject, b"\x00\xff", reply="r", headers={"Req-Id": "1"})
    await until(lambda: found)
    (message,) = found
    assert (message.subject, message.data, message.reply) == (subject, b"\x00\xff", "r")
    assert message.headers == {"Req-Id": "1"}
    await transport.close()


async def test_a_server_that_hangs_with_a_full_socket_is_left(own_nats_server):
    """What it does not read is given up, where more is written than the system keeps for it."""
    first, second = own_nats_server(), own_nats_server()
    transport = await NatsTransport.connect(f"{first.url},{second.url}", name="t")
    # Any of the two may be the first one.
    hangs = next(s for s in (first, second) if s.port == _port(transport))
    hangs.process.send_signal(signal.SIGSTOP)
    try:
        writing = asyncio.create_task(_fill(transport))
        await until(lambda: not transport._client._transport.ready)
        await until(lambda: transport.connected and _port(transport) != hangs.port)
        writing.cancel()
        await transport.close()
    finally:
        hangs.process.send_signal(signal.SIGCONT)


def _port(transport):
    return transport._client._current_server.uri.port


async def _fill(transport):
    while True:
        await transport.publish("anything", b"x" * 65_536)
        await asyncio.sleep(0)


async def test_a_direct_subscription_gets_what_was_sent_before_it_is_left(nats_server):
    """Drained, it gets all of that, and nothing that is sent later; the client forgets it."""
    mine = await NatsTransport.connect(nats_server.url, name="mine")
    others = await NatsTransport.connect(nats_server.url, name="others")
    found: list[bytes] = []
    subject = mine.new_inbox()
    subscription = await mine.subscribe_directly(
        subject, lambda message: found.append(message.data), queue="q"
    )
    await mine.flush(60)
    sent = [b"%d" % number for number in range(1000)]
    for data in sent:
        await others.publish(subject, data)
    await others.flush(60)
    await subscription.drain()
    assert found == sent
    assert not mine._client._direct
    await others.publish(subject, b"late")
    await others.flush()
    await mine.flush()
    assert found == sent
    await others.close()
    await mine.close()


async def test_a_message_may_come_before_a_subscription_is_direct(nats_server, monkeypatch):
    """The server sends from the moment on at which it knows of the subscription."""
    transport = await NatsTransport.connect(nats_server.url, name="t")
    found: list[bytes] = []
    subscribe = transport.subscribe

    async def with_a_message_at_once(subject, callback, **options):
        subscription = await subscribe(subject, callback, **options)
        await transport.publish(subject, b"early")
        await transport.flush()
        return subscription

    monkeypatch.setattr(transport, "subscribe", with_a_message_at_once)
    subject = transport.new_inbox()
    await transport.subscribe_directly(subject, lambda message: found.append(message.data))
    await transport.publish(subject, b"later")
    await until(lambda: sorted(found) == [b"early", b"later"])
    await transport.close()


async def test_a_connection_that_the_server_closed_for_good_is_away(nats_server, caplog):
    """Its process is not ready then; nats-py does not reconnect after most errors."""
    transport = await NatsTransport.connect(nats_server.url, name="x")
    await transport._client._send_command(b"NONSENSE\r\n")
    await until(lambda: transport.away_s)
    assert "closed the connection for good" in caplog.text
    await transport.close()


async def test_a_closed_connection_sends_nothing(nats_server):
    """A typed failure; flushing and closing again are no errors."""
    transport = await NatsTransport.connect(nats_server.url, name="t")
    await transport.close()
    assert not transport.connected
    assert not await transport.wait_connected(0.01)
    with pytest.raises(Fault) as caught:
        await transport.publish("s", b"x")
    assert caught.value.code == "unavailable"
    await transport.flush()
    await transport.close()


async def test_a_message_over_the_limit_of_the_server_is_a_fault(nats_server):
    """And the connection works on."""
    transport = await NatsTransport.connect(nats_server.url, name="t")
    with pytest.raises(Fault):
        await transport.publish("s", b"x" * (transport.max_payload_bytes + 1))
    await transport.publish("s", b"x")
    assert transport.connected
    await transport.close()


async def test_connecting_ends_at_its_timeout_although_the_client_loses_a_cancellation(monkeypatch):
    """As `asyncio.wait_for` before Python 3.12 does, which nats-py uses."""
    cancellations = 0

    async def connect(self, **options):
        nonlocal cancellations
        while cancellations < 2:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancellations += 1
                if cancellations == 2:
                    raise

    async def close(self):
        """It was never connected."""

    monkeypatch.setattr(BusClient, "connect", connect)
    monkeypatch.setattr(BusClient, "close", close)
    with pytest.raises(Fault, match="No NATS server answers"):
        await NatsTransport.connect("nats://127.0.0.1:1", name="t", connect_timeout_s=0.05)
    assert cancellations == 2


async def test_message_of_an_absent_server_shows_no_credentials():
    """It is logged at each start of a service; the addresses are named without them."""
    with pytest.raises(Fault, match=r"at 127\.0\.0\.1:1,127\.0\.0\.1:2\.") as caught:
        await NatsTransport.connect(
            "nats://ada:p@s3cret@127.0.0.1:1,nats://s3cret@127.0.0.1:2",
            name="t", connect_timeout_s=0.05,
        )  # fmt: skip
    assert "s3cret" not in caught.value.failure.message


async def test_wrong_options_are_not_an_absent_server():
    """Their error is the caller's to see."""
    with pytest.raises(TypeError, match="no_such_option"):
        await NatsTransport.connect("nats://127.0.0.1:1", name="t", no_such_option=1)


async def test_server_that_comes_back_at_another_address_is_found(own_nats_server):
    """Subscriptions are there again, and the last address is kept while none is known."""
    first = own_nats_server()
    known: list[str | None] = [None]
    transport = await NatsTransport.connect(first.url, name="t", find_url=lambda: known[0])
    found = []

    async def callback(message):
        found.append(message.data)

    await transport.subscribe("a", callback)
    first.stop()
    await until(lambda: transport.away_s > 0)
    assert not transport.connected
    second = own_nats_server()
    assert first.url != second.url
    known[0] = second.url
    assert await transport.wait_connected(60)
    assert transport.away_s == 0
    await transport.publish("a", b"x")
    await until(lambda: found == [b"x"])
    await transport.close()


async def test_buckets_are_reached_over_a_connection_of_their_own(own_nats_server, tmp_path):
    """Where a seed is given for them: another user, in another account."""
    seeds = {name: new_seed() for name in ("bus", "store")}
    config = tmp_path / "accounts.conf"
    config.write_text(
        f'jetstream {{ max_memory_store: 16MB, store_dir: "{tmp_path}/js" }}\n'
        "accounts: {\n"
        f"  BUS: {{ users: [{{ nkey: {public_key(seeds['bus'])} }}] }}\n"
        f"  STORE: {{ jetstream: enabled, users: [{{ nkey: {public_key(seeds['store'])} }}] }}\n"
        "}\n"
    )
    server = own_nats_server("-c", str(config))
    options = {"seeds": Seeds.of(seeds["bus"]), "store_seeds": Seeds.of(seeds["store"])}
    bus = await connect(server.url, name="test", **options)
    bucket = await bus.key_value("things", ttl_s=60.0, max_bytes=100_000)
    heard = []

    async def note(subject: str, data: bytes) -> None:
        heard.append(subject)

    await bus.subscribe(">", note)
    await at_last(lambda: bucket.put("a", b"1"))
    assert (await at_last(lambda: bucket.get("a"))).value == b"1"
    await bus.publish("sb.v1.end", {})
    await until(lambda: "sb.v1.end" in heard)
    assert heard == ["sb.v1.end"]
    server.stop()
    server.start()
    await at_last(lambda: bucket.put("b", b"2"))
    assert (await at_last(lambda: bucket.get("b"))).value == b"2"
    await bus.close()


class Steps:
    """The steps that were begun; `outcome` is what each does."""

    id = "i1"
    subscriptions = ("ping", "info")

    def __init__(self, outcome) -> None:
        self.begun: list[str] = []
        self._outcome = outcome

    def __getattr__(self, name: str):
        async def step() -> None:
            self.begun.append(name)
            await self._outcome()

        return step


async def leave(client, steps: Steps) -> None:
    subscription = NatsSubscription(client, steps)
    await subscription.drain()
    await subscription.unsubscribe()
    await NatsAnnouncement(client, steps).withdraw()


async def nothing() -> None:
    return None


async def fail() -> None:
    raise nats.errors.ConnectionClosedError


@pytest.mark.parametrize("outcome", [nothing, fail, lambda: asyncio.Event().wait()])
async def test_a_step_that_fails_or_hangs_ends(monkeypatch, outcome):
    """The connection may be lost in the middle."""
    monkeypatch.setattr(transport, "LEAVE_TIMEOUT_S", 0.01)
    steps = Steps(outcome)
    client = SimpleNamespace(is_connected=True, leaving=set())
    await leave(client, steps)
    assert steps.begun == ["drain", "unsubscribe", "stop"]
    # What did not end is not made again on the next connection.
    assert client.leaving == (set() if outcome is nothing else {steps, *steps.subscriptions})


async def test_without_a_server_nothing_is_begun():
    """Each step would wait for ten seconds. The next connection leaves them out."""
    steps = Steps(nothing)
    client = SimpleNamespace(is_connected=False, leaving=set())
    await leave(client, steps)
    assert steps.begun == []
    assert client.leaving == {steps, *steps.subscriptions}
