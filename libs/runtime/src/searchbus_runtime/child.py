"""Child processes that parse hostile input: limited in memory, killed when an answer takes long.

What such a process does is in answering.py.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process

from .answering import LENGTH
from .python import python

MAX_ANSWERS = 200
"""A child is ended after so many: parsers leak memory."""
MAX_ANSWER_BYTES = 128 * 2**20
_PIECE_BYTES = 2**20


class ChildEndedError(Exception):
    """A child ended before it had answered, or began an answer of more than 128 MiB."""


class Child:
    """A process that runs a module, which calls `answer_questions`. It has one question at a time.

    Start it in a thread that lasts: where that ends, the kernel kills the child.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: Process | None = None
        self._answers = 0

    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process, in place of the one before; raises OSError."""
        await self.stop()
        self._process = await asyncio.create_subprocess_exec(
            *python("-m", self._module), stdin=PIPE, stdout=PIPE, limit=_PIECE_BYTES,
            # Parsers of hostile input get no settings, which hold API keys.
            env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8",
                 "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        )  # fmt: skip
        self._answers = 0

    async def ask(self, question: bytes, timeout_s: float) -> bytes:
        """The answer. The process is stopped where there is none, or the caller is cancelled.

        Raises:
            TimeoutError: it took longer.
            ChildEndedError: the process ended.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        done = False
        try:
            async with asyncio.timeout(timeout_s):
                process.stdin.write(LENGTH.pack(len(question)))
                for start in range(0, len(question), _PIECE_BYTES):
                    process.stdin.write(question[start : start + _PIECE_BYTES])
                    await process.stdin.drain()
                size = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))[0]
                if size > MAX_ANSWER_BYTES:
                    raise ChildEndedError
                answer = await process.stdout.readexactly(size)
            done = True
            return answer
        except TimeoutError:  # which is an OSError
            raise
        except (asyncio.IncompleteReadError, OSError):
            raise ChildEndedError from None
        finally:
            self._answers += 1
            # After a cancellation or a failure the pipe may hold half an answer.
            if not done or self._answers > MAX_ANSWERS:
                await asyncio.shield(self._end(process))

    async def _end(self, process: Process) -> None:
        """Kill the process that was asked; its pipes are read to their end, or it would not end."""
        if self._process is process:
            self._process = None
        if process.returncode is None:
            process.kill()
            await process.communicate()

    async def stop(self) -> None:
        """Kill the process, where there is one."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
