"""The overrides of nats-py are still needed, and only in the pinned minor version."""

from __future__ import annotations

import importlib.metadata

import pytest
from nats.aio.client import Client

from searchbus_bus.nats_overrides import DescribedService, TolerantClient
from searchbus_bus.transport import ServiceRecord

BAD = b"a.\xff"
BAD_STATUS = b"NATS/1.0 5\xf33\r\n\r\n"


def test_the_installed_minor_version_is_the_one_that_was_read():
    """Private methods may change in the next one: read it, then change pin, table and this."""
    assert importlib.metadata.version("nats-py").startswith("2.16.")


async def test_nats_py_still_needs_the_overrides():
    """Where this fails, an upstream change ended an override: remove it."""
    with pytest.raises(UnicodeDecodeError):
        Client()._build_message(1, BAD, b"", b"", None)
    with pytest.raises(UnicodeDecodeError):
        await Client()._process_headers(BAD_STATUS)


async def test_invalid_utf8_is_replaced():
    """The message is delivered, and no subscription matches its subject."""
    message = TolerantClient()._build_message(1, BAD, BAD, b"\xff", None)
    assert (message.subject, message.reply, message.data) == ("a.\ufffd", "a.\ufffd", b"\xff")
    assert await TolerantClient()._process_headers(BAD_STATUS) is None


async def test_valid_messages_are_read_as_before():
    """Headers, and the status of a request without subscribers."""
    client = TolerantClient()
    assert await client._process_headers(b"NATS/1.0\r\nReq-Id: 1\r\n\r\n") == {"Req-Id": "1"}
    assert await client._process_headers(b"NATS/1.0 503\r\n\r\n") == {"Status": "503"}


async def test_a_service_describes_the_endpoints_of_the_bus():
    """Although micro did not subscribe to them."""
    endpoint = {"name": "say", "subject": "sb.v1.echo.say", "queue_group": "echo", "metadata": {}}
    record = ServiceRecord("echo", "1.0.0", "Echo.", {"catalog": "c"}, [endpoint])
    info = DescribedService(Client(), record).info()
    assert (info.name, info.metadata) == ("echo", {"catalog": "c"})
    assert [e.subject for e in info.endpoints] == ["sb.v1.echo.say"]
