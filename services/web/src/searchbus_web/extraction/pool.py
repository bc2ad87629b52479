"""Child processes that parse pages: limited in memory, killed when a page takes too long."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process

import msgspec
from opentelemetry import trace

from searchbus_bus import end_task

from .child import LENGTH
from .reading import PageBytes, PageText

__all__ = ["ReaderPool"]

log = logging.getLogger("searchbus.web")
_tracer = trace.get_tracer("searchbus.web")

MAX_PAGES_PER_CHILD = 200
"""A child is replaced after this many: parsers leak memory."""
_LOAD_S = 20.0
"""Added to the first page's time limit, for the imports of a new child."""
_MAX_REPLY_BYTES = 64 * 2**20


class ReaderPool:
    """Parses pages in `size` processes. Use as an asynchronous context manager.

    Args:
        timeout_s: for one page; a process that takes longer is killed and replaced.
    """

    def __init__(self, size: int = 2, *, timeout_s: float = 5.0) -> None:
        self._free: asyncio.Queue[_Child] = asyncio.Queue()
        self._children = [_Child() for _ in range(size)]
        self._timeout_s = timeout_s
        self._warming: asyncio.Task[None] | None = None
        for child in self._children:
            self._free.put_nowait(child)

    async def __aenter__(self) -> ReaderPool:
        # The first page should not wait for the imports, nor the service's start.
        self._warming = asyncio.get_running_loop().create_task(self._warm())
        return self

    async def ready(self) -> None:
        """Wait until every process has its parsers."""
        if self._warming is not None:
            await asyncio.shield(self._warming)

    async def _warm(self) -> None:
        page = PageBytes("", b"<p>warm", "text/html")
        await asyncio.gather(*(self._read(page) for _ in self._children))

    async def __aexit__(self, *_: object) -> None:
        await end_task(self._warming)
        await asyncio.gather(*(child.stop() for child in self._children))

    async def read(self, page: PageBytes) -> PageText:
        """Return the text of a page; no page makes it raise."""
        with _tracer.start_as_current_span("read page", attributes={"bytes": len(page.body)}):
            return await self._read(page)

    async def _read(self, page: PageBytes) -> PageText:
        child = await self._free.get()
        try:
            return await child.read(page, self._timeout_s)
        finally:
            self._free.put_nowait(child)


class _Child:
    def __init__(self) -> None:
        self._process: Process | None = None
        self._pages = 0

    async def start(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "searchbus_web.extraction.child",
                stdin=PIPE, stdout=PIPE, limit=2**20,
                # Parsers of hostile pages get no settings of the service, which hold API keys.
                env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8",
                     "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            )  # fmt: skip
            self._pages = 0
        return self._process

    async def read(self, page: PageBytes, timeout_s: float) -> PageText:
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        body = msgspec.msgpack.encode(page)
        done = False
        try:
            limit_s = timeout_s + (_LOAD_S if self._pages == 0 else 0.0)
            async with asyncio.timeout(limit_s):
                process.stdin.write(LENGTH.pack(len(body)) + body)
                await process.stdin.drain()
                size = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))[0]
                if size > _MAX_REPLY_BYTES:
                    return PageText(problem="too_large")
                reply = msgspec.msgpack.decode(
                    await process.stdout.readexactly(size), type=PageText
                )
                done = True
                return reply
        except TimeoutError:
            log.warning("a page took longer than %.0f s to parse; its process is killed", timeout_s)
            return PageText(problem="too_complex")
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):
            log.warning("the process that parsed a page ended")
            return PageText(problem="too_complex")
        finally:
            self._pages += 1
            # After a cancellation or a failure the pipe may hold half a reply.
            if not done or self._pages >= MAX_PAGES_PER_CHILD:
                await asyncio.shield(self.stop())

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
