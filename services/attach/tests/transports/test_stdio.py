"""Messages to and from a command."""

from __future__ import annotations

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from searchbus_attach.transports.budget import Budget
from searchbus_attach.transports.child import ChildLog
from searchbus_attach.transports.direct import DirectRequests
from searchbus_attach.transports.notes import HttpNotes
from searchbus_attach.transports.reaping import Reaper
from searchbus_attach.transports.stdio import stdio_transport
from searchbus_attach.upstream.connection import why

from ..conftest import children, plain


@pytest.fixture
def reaper():
    found = Reaper()
    yield found
    found.close()


async def test_messages_go_both_ways_and_other_lines_into_the_log(reaper, tmp_path):
    """The process ends with the transport."""
    log = ChildLog("plain", tmp_path)
    async with stdio_transport(
        plain({"start": "greeting"}), reaper, log, Budget("plain"), DirectRequests()
    ) as (
        read,
        write,
    ):
        request = JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize", params={})
        await write.send(SessionMessage(request))
        answer = await read.receive()
        assert answer.message.result["serverInfo"]["name"] == "plain"
        assert len(children()) == 1
    assert children() == []
    log.close()
    assert "(not a message) Welcome" in (tmp_path / "attach-plain.log").read_text()


async def test_the_end_of_a_command_ends_the_transport(reaper, tmp_path):
    """With its exit code, and where to look."""
    with pytest.raises(ExceptionGroup) as error:
        log = ChildLog("x", tmp_path)
        async with stdio_transport(
            plain({"start": "die"}), reaper, log, Budget("x"), DirectRequests()
        ) as (read, _):
            async for _ in read:
                pass
            await read.receive()
    fault = error.value.exceptions[-1]
    assert why(fault, HttpNotes()) == f"it ended with code 4; see {tmp_path / 'attach-x.log'}"
    assert why(fault, HttpNotes()).told == "it ended with code 4"
