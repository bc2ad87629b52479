"""Control messages have limits: they come from any peer."""

from __future__ import annotations

import pytest

from searchbus_contracts import Cancel, Fault, Ping, Pong, decode, encode


def test_messages_survive_the_wire():
    """Each decodes to what was encoded."""
    for message in (Cancel(req_id="a" * 64), Ping(), Pong(instance="x", in_flight=3)):
        assert decode(encode(message), type(message)) == message


@pytest.mark.parametrize("req_id", ["", "a" * 65])
def test_a_request_id_has_1_to_64_characters(req_id):
    """Otherwise the cancellation is refused."""
    with pytest.raises(Fault, match="req_id"):
        decode(encode({"req_id": req_id}), Cancel)
