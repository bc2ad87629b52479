"""A stack that a client started: it runs what its clients want, and ends with the last of them."""

from __future__ import annotations

import asyncio

from searchbus_runtime.state import ClientPipe

from .stack import Stack

LOOK_S = 1.0
"""macOS does not report that the last writer has closed a named pipe: one has to look."""


class ClientFollower:
    """Follows the clients of a stack.

    Args:
        stop: set when no client is left.
    """

    def __init__(self, stack: Stack, pipe: ClientPipe, stop: asyncio.Event) -> None:
        self._stack = stack
        self._pipe = pipe
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        stack.toolsets = set()
        self._loop.add_reader(pipe.descriptor, self._read)
        # The client that started the stack wrote its line before: it decides what is started.
        self._look()

    def close(self) -> None:
        """Stop following."""
        self._looking.cancel()
        self._loop.remove_reader(self._pipe.descriptor)
        self._pipe.close()

    def _look(self) -> None:
        self._looking = self._loop.call_later(LOOK_S, self._look)
        self._read()

    def _read(self) -> None:
        wanted = self._pipe.read()
        if wanted is None:
            # A client that opened the pipe before this found the state file, and one that comes
            # later does not. Only the first kind must be waited for.
            self._stack.withdraw()
            wanted = self._pipe.read()
            if wanted is None:
                self._loop.remove_reader(self._pipe.descriptor)
                self._looking.cancel()
                self._stop.set()
                return
            if self._stack.url:
                self._stack.publish()
        for toolset in wanted:
            self._stack.want(toolset)
