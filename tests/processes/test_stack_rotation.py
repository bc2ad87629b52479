"""Each key of `searchbus up --secure` is replaced while callers are served: no call fails."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from searchbus_runtime.secret import STACK_KEYS
from searchbus_testing import until
from searchbus_testing.stack import Stack, run_command

from .caller import Caller

pytestmark = pytest.mark.slow
READ_S = 3.0
"""After this time the stack and every process have read the keys again: they look once a second."""


@pytest.fixture
def stack(tmp_path):
    settings = {
        "EMBEDDER": "hash", "CALL_RATE_PER_S": "0", "COSTLY_RATE_PER_S": "0", "LOG_LEVEL": "info",
    }  # fmt: skip
    started = Stack(
        tmp_path / "data",
        ("--secure", "--fake-upstreams", "--scale", "edge=2"),
        {f"SEARCHBUS_{name}": value for name, value in settings.items()},
    )
    started.start()
    yield started
    started.stop()


async def test_no_call_fails_while_every_key_of_a_stack_is_rotated(stack, tmp_path):
    """NATS is reloaded, and what is started again afterwards has the new keys."""
    (tmp_path / "okapi.md").write_text("# Okapis\n\nThe okapi browses leaves in Ituri.")
    added = await asyncio.to_thread(
        stack.command, "ingest", tmp_path / "okapi.md", "--collection", "notes"
    )
    assert added.returncode == 0, added.stderr
    caller = Caller(stack.url, "none-is-needed")
    await until(lambda: _answers(caller), timeout_s=300, message=lambda: stack.log[-4000:])
    found = await caller.call("search", query="okapi")
    one = found["structuredContent"]["results"][0]["id"]
    old = _keys(stack)
    kinds = [
        lambda _: ("search", {"query": "okapi"}),
        lambda _: ("fetch", {"id": one}),
        lambda _: ("web_search", {"query": "okapi"}),
        lambda number: ("fetch", {"id": one, "max_tokens": 500 + number % 900}),
    ]
    names = [*json.loads((stack.data / STACK_KEYS).read_text())["seeds"], "actor"]
    async with caller.calling(kinds):
        await asyncio.sleep(READ_S)
        await _change(stack, *(argument for name in names for argument in ("--rotate", name)))
        for name in names:
            await _change(stack, "--retire", name)
    assert [*caller.outcomes] == ["ok"], (caller.outcomes, stack.log[-6000:])
    assert not old & _keys(stack)
    assert (stack.data / "logs" / "nats.log").read_text().count("Server is ready") == 1
    assert "refuses the key" not in stack.log
    process = stack.state["processes"]["retrieval"]
    os.kill(process, signal.SIGKILL)
    await until(lambda: stack.state["processes"].get("retrieval") not in (process, None))
    await until(lambda: _answers(caller), timeout_s=300, message=lambda: stack.log[-4000:])
    await caller.close()


async def _change(stack: Stack, *arguments: str) -> None:
    done = await asyncio.to_thread(run_command, "nats-config", "--data", stack.data, *arguments)
    assert done.returncode == 0, done.stderr
    await asyncio.sleep(READ_S)


async def _answers(caller: Caller) -> bool:
    results = [await caller.call(tool, query="okapi") for tool in ("web_search", "search")]
    sources = results[1].get("structuredContent", {}).get("results", [])
    return not any(r.get("isError") for r in results) and any(
        one["id"].startswith("doc") for one in sources
    )


def _keys(stack: Stack) -> set[str]:
    """Each key of the file, also the second ones."""
    found = json.loads((stack.data / STACK_KEYS).read_text())
    texts = [
        *found["seeds"].values(), *found["store_seeds"].values(), found["actor_private"],
        found["actor_public"],
    ]  # fmt: skip
    return {key for text in texts for key in text.split()}
