"""Reads the bytes of files, those of hostile formats in a process of its own.

A file can make a parser hang, crash or take all memory. The process that parses is
`python -m searchbus_ingest.sources.reading`; it does not have the operator's keys.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from typing import Self

import msgspec

from searchbus_runtime.answering import answer_questions
from searchbus_runtime.child import Child, ChildEndedError

from .content import PARSED, Content, read_content
from .item import Reason, SkipError, unread

TIMEOUT_S = 120.0
"""For one file, after the imports of a new process."""
_LOAD_S = 60.0
MEMORY_BYTES = 2 * 2**30
_WARM = msgspec.msgpack.encode((b"<p>warm", ".html", None))


class _Skipped(msgspec.Struct, array_like=True, tag=True):
    reason: Reason
    problem: str


class _Read(msgspec.Struct, array_like=True, tag=True):
    title: str | None
    text: str
    note: str | None
    markdown: bool


class Reader:
    """Reads one file after the other. Use as an asynchronous context manager.

    Its process starts with the first file that needs it, and anew after one that ended it.
    """

    def __init__(self) -> None:
        self._child = Child(__name__)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the process, where there is one."""
        await self._child.stop()

    async def read(self, body: bytes, suffix: str, charset: str | None = None) -> Content:
        """See `read_content`.

        Raises:
            SkipError, ValueError: there is no text to read; or reading it takes too long.
        """
        if suffix not in PARSED:
            return await asyncio.to_thread(read_content, body, suffix, charset)
        if not self._child.is_alive():
            await self._start()
        question = msgspec.msgpack.encode((body, suffix, charset))
        try:
            reply = await self._child.ask(question, TIMEOUT_S)
            found = msgspec.msgpack.decode(reply, type=_Read | _Skipped)
        except TimeoutError:
            problem = f"reading it takes longer than {TIMEOUT_S:.0f} s; split it"
            raise SkipError(Reason.TOO_COMPLEX, problem) from None
        except (ChildEndedError, msgspec.MsgspecError):
            problem = "the process that read it ended; save it anew, or split it"
            raise SkipError(Reason.TOO_COMPLEX, problem) from None
        if isinstance(found, _Skipped):
            raise SkipError(found.reason, found.problem)
        return Content(found.title, found.text, found.note, found.markdown)

    async def _start(self) -> None:
        try:
            await self._child.start()
            await self._child.ask(_WARM, _LOAD_S)
        except (TimeoutError, OSError, ChildEndedError) as error:
            problem = f"cannot be read: the process that reads it does not start ({error})"
            raise SkipError(Reason.UNREADABLE, problem) from None


def answered(question: bytes) -> bytes:
    """The encoded answer to an encoded question; no file makes it raise."""
    try:
        content = read_content(
            *msgspec.msgpack.decode(question, type=tuple[bytes, str, str | None])
        )
        title, text = (
            part and part.encode("utf-8", "replace").decode()
            for part in (content.title, content.text)
        )
        return msgspec.msgpack.encode(_Read(title, text or "", content.note, content.markdown))
    except MemoryError:
        problem = f"reading it takes more than {MEMORY_BYTES // 2**30} GiB of memory; split it"
        return msgspec.msgpack.encode(_Skipped(Reason.TOO_COMPLEX, problem))
    except (SkipError, ValueError) as error:
        item = unread("", error)
        return msgspec.msgpack.encode(_Skipped(item.reason, item.problem or ""))
    except Exception as error:  # parsers raise errors of every kind on hostile files
        problem = f"cannot be read: its parser failed ({type(error).__name__}); save it anew"
        return msgspec.msgpack.encode(_Skipped(Reason.UNREADABLE, problem))


if __name__ == "__main__":
    # What parsers warn of and log says nothing to whoever reads a folder.
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    answer_questions(answered, memory_bytes=MEMORY_BYTES, cpu_s=int(TIMEOUT_S))
