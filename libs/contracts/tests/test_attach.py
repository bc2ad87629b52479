"""What is said of attached servers."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault, decode, encode
from searchbus_contracts.attach import AttachedServer, StatusReply, StatusRequest


def test_a_request_without_a_name_is_about_all_servers():
    """And without their tools."""
    assert decode(b"{}", StatusRequest).server is None


def test_a_name_is_a_token():
    """It is part of a subject."""
    with pytest.raises(Fault, match="server"):
        decode(b'{"server": "a.b"}', StatusRequest)


def test_a_state_is_one_of_four():
    """A reader may rely on them."""
    server = AttachedServer(name="files", state="up", target="npx")
    assert decode(encode(StatusReply(servers=(server,))), StatusReply).servers == (server,)
    with pytest.raises(Fault, match="state"):
        decode(b'{"servers": [{"name": "a", "state": "lost", "target": "x"}]}', StatusReply)
