"""The NATS side of the transport. See also test_behaviour and test_faults_on_nats."""

from __future__ import annotations

import nats.errors
import pytest

from searchbus_bus.nats_transport import NatsTransport, _kind_of
from searchbus_contracts import Fault
from searchbus_testing import until


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
