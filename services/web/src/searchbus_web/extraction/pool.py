"""Child processes that read pages: limited in memory, killed when a page takes too long."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process

import msgspec
from opentelemetry import trace

from .child import LENGTH
from .reading import Page, Text

__all__ = ["ReaderPool"]

log = logging.getLogger("searchbus.web")
_tracer = trace.get_tracer("searchbus.web")

MAX_PAGES_A_CHILD = 200
"""Then it is replaced: parsers leak."""
_LOAD_S = 20.0
_MAX_ANSWER_BYTES = 64 * 2**20


class ReaderPool:
    """Reads pages in `size` processes.

    Args:
        timeout_s: for one page; then the process is killed and replaced.
    """

    def __init__(self, size: int = 2, *, timeout_s: float = 5.0) -> None:
        self._free: asyncio.Queue[_Child] = asyncio.Queue()
        self._children = [_Child() for _ in range(size)]
        self._timeout_s = timeout_s
        for child in self._children:
            self._free.put_nowait(child)

    async def __aenter__(self) -> ReaderPool:
        # Warm: the first page need not wait for the imports.
        page = Page("", b"<p>warm", "text/html")
        await asyncio.gather(*(child.read(page, self._timeout_s) for child in self._children))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(child.stop() for child in self._children))

    async def read(self, page: Page) -> Text:
        """The text of a page; never raises for a page."""
        with _tracer.start_as_current_span("read page", attributes={"bytes": len(page.body)}):
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
                # Nothing of the service's settings (keys!) is a page's business.
                env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8",
                     "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            )  # fmt: skip
            self._pages = 0
        return self._process

    async def read(self, page: Page, timeout_s: float) -> Text:
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        body = msgspec.msgpack.encode(page)
        done = False
        try:
            # A new process loads its parsers first.
            async with asyncio.timeout(timeout_s + (_LOAD_S if self._pages == 0 else 0.0)):
                process.stdin.write(LENGTH.pack(len(body)) + body)
                await process.stdin.drain()
                size = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))[0]
                if size > _MAX_ANSWER_BYTES:
                    return Text(problem="too_large")
                answer = msgspec.msgpack.decode(await process.stdout.readexactly(size), type=Text)
                done = True
                return answer
        except TimeoutError:
            log.warning("a page took longer than %.0f s to read; its reader is killed", timeout_s)
            return Text(problem="too_complex")
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):
            log.warning("a reader died of a page")
            return Text(problem="too_complex")
        finally:
            self._pages += 1
            # Cancelled or failed: the pipe holds half an answer.
            if not done or self._pages >= MAX_PAGES_A_CHILD:
                await asyncio.shield(self.stop())

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
