"""Row 32: `searchbus stdio` as a desktop host starts it first: an empty home, nothing running."""

from __future__ import annotations

import asyncio
import json
import os
import time
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from searchbus_fakes.ddg import FakeDuckDuckGo
from searchbus_testing import SEARCHBUS, serve

from .fleet import READY_S
from .scorecard import Measurement, at_least, at_most

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "chaos", "version": "1"},
}


async def stdio(folder: Path, *, short: bool) -> list[Measurement]:
    """The time to its first answer, a search, and its end once standard input closes."""
    home = folder / "home"
    home.mkdir(parents=True)
    async with serve(FakeDuckDuckGo().app) as url:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("XDG_")},
            "HOME": str(home), "SEARCHBUS_EMBEDDER": "hash",
            "SEARCHBUS_DDG_HTML_URL": f"{url}/html/", "SEARCHBUS_DDG_LITE_URL": f"{url}/lite/",
        }  # fmt: skip
        started_s = time.monotonic()
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                str(SEARCHBUS), "stdio", stdin=PIPE, stdout=PIPE, stderr=log, env=environment,
                limit=2**24,
            )  # fmt: skip
        try:
            async with asyncio.timeout(READY_S):
                await _ask(process, 1, "initialize", INITIALIZE)
                first_s = time.monotonic() - started_s
                _send(process, {"method": "notifications/initialized"})
                call = {"name": "ddg_web_search", "arguments": {"query": "whales"}}
                found = await _ask(process, 2, "tools/call", call)
                searched_s = time.monotonic() - started_s
                closed_s = time.monotonic()
                assert process.stdin is not None
                process.stdin.close()
                await process.wait()
                end_s = time.monotonic() - closed_s
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    answered = "result" in found and not found["result"].get("isError")
    return [
        at_most("32", "initialize of stdio, empty HOME, nothing running", first_s, 10, "s"),
        at_least("32", "its search answered", int(answered), 1),
        at_most("32", "its search, from the start of the process", searched_s, 20, "s"),
        at_most("32", "end after standard input closes", end_s, 3, "s"),
    ]


def _send(process: asyncio.subprocess.Process, message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


async def _ask(
    process: asyncio.subprocess.Process, number: int, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    """The answer to a request; notifications before it are skipped."""
    _send(process, {"id": number, "method": method, "params": params})
    assert process.stdout is not None
    while line := await process.stdout.readline():
        message: dict[str, Any] = json.loads(line)
        if message.get("id") == number:
            return message
    raise ConnectionError("searchbus stdio ended")
