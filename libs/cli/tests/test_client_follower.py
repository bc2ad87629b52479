"""A stack that a client started runs what its clients want, and ends with the last of them."""

from __future__ import annotations

import asyncio
import os

import pytest

from searchbus_cli import client_follower as module
from searchbus_cli.client_follower import ClientFollower
from searchbus_runtime.state import ClientPipe, join_clients, make_pipe
from searchbus_testing import until


class Followed:
    """What the follower does with a stack."""

    def __init__(self) -> None:
        self.toolsets: set[str] | None = None
        self.url = "http://127.0.0.1:1"
        self.wanted: list[str] = []
        self.published = True
        self.withdrawn = 0
        self.on_withdraw = lambda: None

    def want(self, toolset: str) -> None:
        self.wanted.append(toolset)

    def publish(self) -> None:
        self.published = True

    def withdraw(self) -> None:
        self.published = False
        self.withdrawn += 1
        self.on_withdraw()


@pytest.fixture
async def followed(tmp_path):
    """A stack with its follower; the client that started it wants "first"."""
    stack, stop = Followed(), asyncio.Event()
    reader = make_pipe(tmp_path)
    stack.starter = join_clients(tmp_path, "first")
    stack.stop = stop
    stack.reader = reader
    follower = ClientFollower(stack, ClientPipe(reader), stop)
    yield stack
    follower.close()


async def test_toolset_of_the_starter_is_known_before_the_start(followed):
    """The services that it needs are the first ones."""
    assert followed.toolsets == set()
    assert followed.wanted == ["first"]


async def test_toolsets_of_later_clients_are_wanted_too(followed, tmp_path):
    """While it runs."""
    client = join_clients(tmp_path, "second")
    await until(lambda: followed.wanted == ["first", "second"])
    os.close(client)
    assert not followed.stop.is_set()


async def test_stack_ends_with_its_last_client(followed, tmp_path):
    """The first may end before: it is a client like the others."""
    client = join_clients(tmp_path, None)
    os.close(followed.starter)
    await until(lambda: followed.wanted == ["first", "*"])
    assert not followed.stop.is_set()
    os.close(client)
    await asyncio.wait_for(followed.stop.wait(), 60)
    assert not followed.published


async def test_client_that_came_in_the_last_moment_keeps_the_stack(followed, tmp_path):
    """It found the state file before that was removed."""
    clients = []
    followed.on_withdraw = lambda: clients.append(join_clients(tmp_path, "late"))
    os.close(followed.starter)
    await until(lambda: "late" in followed.wanted)
    assert followed.withdrawn == 1
    assert followed.published
    assert not followed.stop.is_set()
    os.close(clients[0])


async def test_last_client_is_missed_where_the_system_does_not_report_it(
    followed, tmp_path, monkeypatch
):
    """As macOS does not."""
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    client = join_clients(tmp_path, "second")
    os.close(followed.starter)
    asyncio.get_running_loop().remove_reader(followed.reader)
    os.close(client)
    await asyncio.wait_for(followed.stop.wait(), 60)
    assert not followed.published
