"""What is kept of a server's lists while it changes them, fails or is away."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

from searchbus_attach.definitions.describe import ServerContents, ServerTools
from searchbus_attach.definitions.text import token_name
from searchbus_attach.errors import ServerError
from searchbus_attach.upstream import following as module
from searchbus_attach.upstream.following import Lists
from searchbus_attach.upstream.session import ListedContents
from searchbus_testing import until

from ..conftest import plain


class Session:
    """The part of a session that is used; its lists are attributes."""

    def __init__(self) -> None:
        self.tools: list[Any] = [{"name": "echo", "inputSchema": {"type": "object"}}]
        self.prompts: list[Any] | Exception = [{"name": "greet"}]

    async def list_all(self) -> list[Any]:
        return self.tools

    async def list_contents(self) -> ListedContents:
        if isinstance(self.prompts, Exception):
            raise self.prompts
        return ListedContents(prompts=self.prompts)


@pytest.fixture
def changes() -> list[None]:
    return []


@pytest.fixture
def lists(changes) -> Lists:
    return Lists(plain(), lambda: changes.append(None))


def names(lists: Lists) -> tuple[list[str], list[str]]:
    tools = lists.tools.descriptors if lists.tools is not None else ()
    return [tool.name for tool in tools], [prompt.name for prompt in lists.contents.prompts]


async def test_a_change_is_reported_once(lists, changes):
    """Reading the same again is not a change."""
    session = Session()
    await lists.read(session)
    await lists.read(session)
    assert (names(lists), len(changes)) == ((["echo"], ["greet"]), 1)
    session.tools.append({"name": "add", "inputSchema": {"type": "object"}})
    await lists.read(session)
    assert (names(lists), len(changes)) == ((["echo", "add"], ["greet"]), 2)


async def test_of_a_session_of_a_caller_only_names_are_kept(changes):
    """Its definitions are those of the server's own connection: each of many would keep them."""
    session = Session()
    session.tools += [{"name": "a b"}, {"name": 7}, "x"]
    session.prompts = AssertionError("nobody asks for its prompts")
    lists = Lists(plain(), lambda: changes.append(None), names_only=True)
    lists.give_up("it was away")
    await lists.read(session)
    assert lists.tools == ServerTools(own_names={"echo": "echo", token_name("a b"): "a b"})
    assert (lists.contents, lists.given_up, len(changes)) == (ServerContents(), False, 1)


async def test_true_in_the_place_of_one_is_a_change(lists, changes):
    """They are equal for Python."""
    session = Session()
    for value in (1, True, True):
        schema = {"type": "object", "properties": {"n": {"default": value}}}
        session.tools = [{"name": "echo", "inputSchema": schema}]
        await lists.read(session)
    assert len(changes) == 2


@pytest.mark.parametrize(
    "failure", [ServerError("too many pages"), MCPError(-32603, "boom")], ids=["pages", "error"]
)
async def test_tools_can_be_used_without_the_other_lists(lists, caplog, failure):
    """The prompts that were read before stay."""
    session = Session()
    await lists.read(session)
    session.prompts = failure
    await lists.read(session)
    assert names(lists) == (["echo"], ["greet"])
    assert "its prompts and resources cannot be read" in caplog.text


async def test_a_connection_that_ends_while_reading_is_reported(lists, changes):
    """The caller connects again; nothing of the new lists is taken."""
    session = Session()
    session.prompts = MCPError(CONNECTION_CLOSED, "Connection closed")
    with pytest.raises(MCPError):
        await lists.read(session)
    assert (lists.tools, changes) == (None, [])


async def test_lists_of_a_server_that_is_away_stay_until_it_is_given_up(lists, changes):
    """Then it offers nothing, until it is read again."""
    await lists.read(Session())
    lists.stale = True  # as while it is away
    assert (names(lists), len(changes)) == ((["echo"], ["greet"]), 1)
    lists.give_up("a reason")
    assert (names(lists), lists.given_up, len(changes)) == (([], []), True, 2)
    await lists.read(Session())
    assert (names(lists), lists.stale, lists.given_up) == ((["echo"], ["greet"]), False, False)
    assert len(changes) == 3


async def test_what_cannot_be_listed_is_logged_once(lists, caplog):
    """With the reason, and again when it changes."""
    session = Session()
    session.tools.append({"name": "broken", "inputSchema": {"type": 7}})
    for _ in range(2):
        await lists.read(session)
    assert caplog.text.count("the tool broken is not listed") == 1
    session.tools.append({"name": "worse", "inputSchema": []})
    await lists.read(session)
    assert caplog.text.count("the tool worse is not listed") == 1


async def test_thousands_that_cannot_be_listed_are_a_few_lines(lists, caplog):
    """The server could change them every second."""
    session = Session()
    session.tools = [{"name": f"broken{n}", "inputSchema": 7} for n in range(5_000)]
    await lists.read(session)
    assert len(caplog.records) < 30
    assert "4980 more are not listed" in caplog.text


@pytest.mark.parametrize("what", ["describe", "describe_contents"])
async def test_other_servers_do_not_wait_for_a_long_list(lists, monkeypatch, what):
    """It is looked at in a thread, which ends when nobody waits for it any more."""
    described = threading.Event()
    ends: list[bool] = []

    def slow(server: Any, listed: Any, is_late: Callable[[], bool] = lambda: True) -> ServerTools:
        described.set()
        while not is_late():
            time.sleep(0.001)
        ends.append(True)
        raise TimeoutError

    monkeypatch.setattr(module, what, slow)
    reading = asyncio.create_task(lists.read(Session()))
    await until(described.is_set)
    reading.cancel()
    await until(lambda: ends)
    assert reading.cancelled()
