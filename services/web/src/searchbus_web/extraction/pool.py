"""Child processes that parse pages: limited in memory, killed when a page takes too long."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from weakref import WeakValueDictionary

import msgspec
from opentelemetry import trace

from searchbus_bus import end_task

from .reading import (
    LENGTH,
    Answer,
    JsonAnswer,
    PageBytes,
    PageText,
    Question,
    RobotsAnswer,
    RobotsQuestion,
)

log = logging.getLogger("searchbus.web")
_tracer = trace.get_tracer("searchbus.web")

MAX_PAGES_PER_CHILD = 200
"""A child is replaced after this many: parsers leak memory."""
_LOAD_S = 60.0
"""For the imports of a new child, on a busy machine."""
_AGAIN_S = 1.0
"""Until a child that did not start is started again."""
_MAX_REPLY_BYTES = 64 * 2**20
_WARM = PageBytes("", b"<p>warm", "text/html")


class ReaderPool:
    """Parses pages in `size` processes. Use as an asynchronous context manager.

    One caller has at most half of the processes at a time, so that pages chosen to take long do
    not stop the others' pages. A process takes pages once its parsers are loaded; none is started
    before pages are expected, since each takes 30 MB, and most of a second of CPU time to start.

    Args:
        timeout_s: for one page; a process that takes longer is killed and replaced.
    """

    def __init__(self, size: int = 2, *, timeout_s: float = 5.0) -> None:
        self._free: asyncio.Queue[_Child] = asyncio.Queue()
        self._children = [_Child() for _ in range(size)]
        self._unused = list(self._children)
        self._timeout_s = timeout_s
        self._per_caller = max(1, size // 2)
        # A caller's semaphore exists while a page of theirs is parsed or waits.
        self._callers: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._loading: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ReaderPool:
        return self

    def prepare(self) -> None:
        """Start the processes, where none was: a page is being fetched meanwhile."""
        while self._unused:
            self._load(self._unused.pop())

    async def ready(self) -> None:
        """Wait until every process that is not in use has its parsers."""
        self.prepare()
        await asyncio.gather(*map(asyncio.shield, self._loading))

    async def __aexit__(self, *_: object) -> None:
        for task in tuple(self._loading):
            await end_task(task)
        await asyncio.gather(*(child.stop() for child in self._children))

    async def read(self, page: PageBytes, *, caller: str = "") -> PageText:
        """Return the text of a page, for a caller by a stable id; no page makes it raise."""
        with _tracer.start_as_current_span("read page", attributes={"bytes": len(page.body)}):
            found = await self._ask(page, caller)
        return found if isinstance(found, PageText) else PageText(problem="parse_error")

    async def obey(self, question: RobotsQuestion, *, caller: str = "") -> RobotsAnswer:
        """What a robots.txt says; one that cannot be read in time allows nothing."""
        found = await self._ask(question, caller)
        return found if isinstance(found, RobotsAnswer) else RobotsAnswer(False)

    async def read_json(self, question: Question, *, caller: str = "") -> bytes | str:
        """JSON for a question of facts, data or highlights; why there is none, as a problem."""
        found = await self._ask(question, caller)
        if isinstance(found, JsonAnswer):
            return found.body
        return (found.problem if isinstance(found, PageText) else None) or "parse_error"

    async def _ask(self, question: Question, caller: str) -> Answer:
        self.prepare()
        async with self._callers.setdefault(caller, asyncio.Semaphore(self._per_caller)):
            child = await self._free.get()
            while not child.is_alive():  # it ended by itself
                self._load(child)
                child = await self._free.get()
            try:
                return await child.ask(question, self._timeout_s)
            finally:
                if child.is_alive():
                    self._free.put_nowait(child)
                else:
                    self._load(child)

    def _load(self, child: _Child) -> None:
        task = asyncio.get_running_loop().create_task(self._start(child))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    async def _start(self, child: _Child) -> None:
        started = await child.start()
        while not started:
            await asyncio.sleep(_AGAIN_S)
            started = await child.start()
        self._free.put_nowait(child)


class _Child:
    def __init__(self) -> None:
        self._process: Process | None = None
        self._answers = 0

    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> bool:
        """Start the process and load its parsers; False where that failed."""
        await self.stop()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "searchbus_web.extraction.reading",
                stdin=PIPE, stdout=PIPE, limit=2**20,
                # Parsers of hostile pages get no settings of the service, which hold API keys.
                env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8",
                     "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            )  # fmt: skip
        except OSError as error:
            log.warning("a process that parses pages could not be started: %s", error)
            return False
        self._answers = 0
        await self.ask(_WARM, _LOAD_S)
        return self.is_alive()

    async def ask(self, question: Question, timeout_s: float) -> Answer:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        body = msgspec.msgpack.encode(question)
        done = False
        try:
            async with asyncio.timeout(timeout_s):
                process.stdin.write(LENGTH.pack(len(body)) + body)
                await process.stdin.drain()
                size = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))[0]
                if size > _MAX_REPLY_BYTES:
                    return PageText(problem="too_large")
                reply: Answer = msgspec.msgpack.decode(
                    await process.stdout.readexactly(size), type=Answer
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
            self._answers += 1
            # After a cancellation or a failure the pipe may hold half a reply.
            if not done or self._answers > MAX_PAGES_PER_CHILD:
                await asyncio.shield(self.stop())

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
