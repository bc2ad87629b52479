"""Twenty-one real servers of npm and the Python index, attached at once from one `mcpServers` file.

They are installed once into build/. That takes minutes, so the tests run where it was done, or with
SEARCHBUS_REAL_SERVERS=1, which does it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from searchbus_testing import Stack, eventually

from ..bench.edge import message
from ..bench.peers.environments import NotInstalledError
from .declared import SERVERS, write_host_file
from .installing import installed, is_installed

pytestmark = pytest.mark.slow
PURPOSES = tomllib.loads((Path(__file__).parent / "purposes.toml").read_text())
REVISION = "2026-07-28"
START_TIMEOUT_S = 600.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("real") / "files"


@pytest.fixture(scope="module")
def attached(start_stack, tmp_path_factory, folder) -> Iterator[Stack]:
    """A stack with the real model, that started with all of them."""
    if not is_installed() and not os.environ.get("SEARCHBUS_REAL_SERVERS"):
        pytest.skip("the servers are not installed; SEARCHBUS_REAL_SERVERS=1 does it, in minutes")
    try:
        commands = installed()
    except NotInstalledError as error:
        pytest.skip(str(error))
    file = tmp_path_factory.mktemp("hosts") / "mcp.json"
    write_host_file(file, commands, folder)
    patch = pytest.MonkeyPatch()
    patch.setenv("SEARCHBUS_ATTACH_FILE", str(file))  # commands need it, too
    stack = start_stack(tmp_path_factory.mktemp("stack"), SEARCHBUS_EMBEDDER="model")
    eventually(lambda: set(states(stack).values()) == {"up"} and len(states(stack)) == len(SERVERS),
               timeout_s=START_TIMEOUT_S, message=lambda: str(states(stack)))  # fmt: skip
    eventually(lambda: len(listed(stack)) >= sum(map(len, PURPOSES.values())),
               timeout_s=START_TIMEOUT_S, message=lambda: str(len(listed(stack))))  # fmt: skip
    yield stack
    patch.undo()


def states(stack: Stack) -> dict[str, str]:
    done = stack.command("attach", "list", "--json")
    return {s["name"]: s["state"] for s in json.loads(done.stdout)} if not done.returncode else {}


def ask(stack: Stack, method: str, **params: Any) -> dict[str, Any]:
    """One request to /mcp."""
    headers, body = message(method, REVISION)
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    body["params"] |= params
    found = httpx.post(f"{stack.url}/mcp", json=body, headers=headers, timeout=120).json()
    assert "result" in found, found
    return dict(found["result"])


def listed(stack: Stack) -> set[str]:
    """The names of attached tools on /mcp."""
    found, cursor = set(), {}
    while True:
        page = ask(stack, "tools/list", **cursor)
        found |= {tool["name"] for tool in page["tools"] if "__" in tool["name"]}
        if page.get("nextCursor") is None:
            return found
        cursor = {"cursor": page["nextCursor"]}


def test_every_tool_is_listed(attached):
    """With the name of its server before its own; no tool of any of them is refused."""
    assert len(SERVERS) >= 20
    assert listed(attached) == {
        f"{server}__{tool}" for server, tools in PURPOSES.items() for tool in tools
    }


def test_a_sentence_of_its_purpose_finds_a_tool(attached):
    """Nine of ten among the first five; the sentences were written before the first search."""

    def place(server: str, tool: str) -> int:
        """From 1; 0 where it is not found."""
        found = ask(attached, "tools/search", query=PURPOSES[server][tool])["tools"]
        names = [one["name"] for one in found]
        name = f"{server}__{tool}"
        return names.index(name) + 1 if name in names else 0

    # The index embeds new tools in the background.
    eventually(lambda: place("git", "git_log"), timeout_s=START_TIMEOUT_S, interval_s=1)
    found = {
        f"{server}__{tool}": place(server, tool)
        for server, tools in PURPOSES.items()
        for tool in tools
    }
    missed = {name: place for name, place in found.items() if not 0 < place <= 5}
    print(f"{len(found) - len(missed)} of {len(found)} among the first five; missed: {missed}")
    assert len(found) - len(missed) >= 0.9 * len(found), missed


@pytest.mark.parametrize("server", [name for name, one in SERVERS.items() if one.calls])
def test_a_server_that_needs_no_internet_is_called(attached, folder, server):
    """By its name on /mcp."""

    def filled(value: Any) -> Any:
        text = json.dumps(value).replace("{folder}", str(folder))
        return json.loads(text)

    for tool, (arguments, expected) in SERVERS[server].calls.items():
        found = ask(attached, "tools/call", name=f"{server}__{tool}", arguments=filled(arguments))
        text = json.dumps(found.get("content"), ensure_ascii=False)
        assert not found.get("isError"), text
        assert expected in text
