"""Child processes that parse pages: limited in memory, killed when a page takes too long."""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakValueDictionary

import msgspec
from opentelemetry import trace

from searchbus_bus import end_task
from searchbus_runtime.child import Child, ChildEndedError

from .reading import (
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

_LOAD_S = 60.0
"""For the imports of a new child, on a busy machine."""
_AGAIN_S = 1.0
"""Until a child that did not start is started again."""
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
                return await child.answer(question, self._timeout_s)
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
        started = await child.load()
        while not started:
            await asyncio.sleep(_AGAIN_S)
            started = await child.load()
        self._free.put_nowait(child)


class _Child(Child):
    def __init__(self) -> None:
        super().__init__("searchbus_web.extraction.reading")

    async def load(self) -> bool:
        """Start the process and load its parsers; False where that failed."""
        try:
            await self.start()
        except OSError as error:
            log.warning("a process that parses pages could not be started: %s", error)
            return False
        await self.answer(_WARM, _LOAD_S)
        return self.is_alive()

    async def answer(self, question: Question, timeout_s: float) -> Answer:
        try:
            reply = await self.ask(msgspec.msgpack.encode(question), timeout_s)
            found: Answer = msgspec.msgpack.decode(reply, type=Answer)
            return found
        except TimeoutError:
            log.warning("a page took longer than %.0f s to parse; its process is killed", timeout_s)
        except (ChildEndedError, msgspec.MsgspecError):
            log.warning("the process that parsed a page ended")
        return PageText(problem="too_complex")
