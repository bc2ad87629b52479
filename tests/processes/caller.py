"""Calls of MCP tools at a rate, counted by how they ended."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

LEAST_CALLS, PER_S = 3_000, 50


class Caller:
    """Calls tools by MCP, at a rate; it does not wait for one answer before the next call."""

    def __init__(self, url: str, token: str) -> None:
        self.token = token
        self.outcomes: Counter[str] = Counter()
        # The edge closes idle connections after five seconds, as httpx does: one of both is sooner.
        limits = httpx.Limits(keepalive_expiry=1)
        self._http = httpx.AsyncClient(base_url=url, timeout=60, limits=limits)
        self._numbers = itertools.count()
        self._running: set[asyncio.Task[None]] = set()

    async def call(self, tool: str, **arguments: object) -> dict:
        body = {
            "jsonrpc": "2.0", "id": next(self._numbers), "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }  # fmt: skip
        headers = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {self.token}",
        }
        answer = await self._http.post("/mcp", json=body, headers=headers)
        if answer.status_code != 200:
            return {"isError": True, "content": [{"text": f"HTTP {answer.status_code}"}]}
        text = answer.text
        if text.startswith(("event:", "data:", "id:")):
            text = [line for line in text.splitlines() if line.startswith("data:")][-1][5:]
        found = json.loads(text)
        return found.get("result") or {"isError": True, "content": [{"text": str(found)}]}

    async def counted(self, tool: str, **arguments: object) -> None:
        try:
            result = await self.call(tool, **arguments)
        except httpx.HTTPError as error:
            self.outcomes[repr(error)] += 1
            return
        failed = result.get("isError")
        self.outcomes[f"{tool}: {result['content'][0]['text'][:200]}" if failed else "ok"] += 1

    @asynccontextmanager
    async def calling(self, kinds: list[Callable[[int], tuple[str, dict]]]) -> AsyncIterator[None]:
        """Calls of these kinds in turn, 50 a second: during the block, and until they are 3,000.

        Args:
            kinds: number of the call → tool and arguments.
        """
        ended = asyncio.Event()
        load = asyncio.create_task(self._call_until(ended, kinds))
        try:
            yield
        finally:
            ended.set()
            await load

    async def _call_until(
        self, ended: asyncio.Event, kinds: list[Callable[[int], tuple[str, dict]]]
    ) -> None:
        started_s = time.monotonic()
        async with asyncio.TaskGroup() as calls:
            for number in itertools.count():
                if ended.is_set() and number >= LEAST_CALLS:
                    return
                tool, arguments = kinds[number % len(kinds)](number)
                task = calls.create_task(self.counted(tool, **arguments))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
                await asyncio.sleep(max(0.0, started_s + (number + 1) / PER_S - time.monotonic()))

    async def use(self, token: str) -> None:
        """Use another token, and wait for the calls with the old one."""
        self.token, old = token, {*self._running}
        await asyncio.gather(*old)

    async def close(self) -> None:
        await self._http.aclose()
