"""The endpoint `toolindex.search` over the bus."""

from __future__ import annotations

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor
from searchbus_contracts.toolindex import FindReply, FindRequest
from searchbus_toolindex.finder import Finder
from searchbus_toolindex.service import build_worker

from .conftest import RecordingEmbedder, index_of, tool


async def test_caller_finds_what_it_may_use():
    """By the roles of the request's actor."""
    index = index_of(
        tool("send", "send mail"), tool("secret_mail", "mail", required_roles=("SPY",))
    )
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(Finder(index, RecordingEmbedder())))
    bus = broker.connect()

    async def names(*roles: str) -> set[str]:
        reply = await bus.request(
            bus.subjects.endpoint("toolindex", "search"), FindRequest(query="mail"), FindReply,
            service="toolindex", timeout_s=10, actor=Actor(subject="a", roles=roles),
        )  # fmt: skip
        return {found.name for found in reply.found}

    assert await names() == {"send"}
    assert await names("SPY") == {"send", "secret_mail"}
