"""A TCP proxy that disturbs the connections through it.

async with Proxy(4222) as proxy:        # clients connect to proxy.port; delay_s=0.04 is for each way
    proxy.fault = Fault.STALL           # nothing passes, in both directions; connections stay open
    proxy.fault = Fault.HALF_OPEN       # what clients send passes, nothing comes back
    proxy.fault = Fault.SLOW            # a few bytes at a time
    proxy.fault = Fault.CUT             # connections are reset, new ones too
    proxy.fault = Fault.NONE            # what was held goes on: TCP loses no bytes
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from enum import Enum

_SLOW_BYTES = 256
_SLOW_PAUSE_S = 0.05
_CHUNK_BYTES = 64 * 1024


class Fault(Enum):
    """What the proxy does to its connections."""

    NONE = "none"
    CUT = "cut"
    STALL = "stall"
    HALF_OPEN = "half-open"
    SLOW = "slow"


_HELD = {
    Fault.STALL: (True, True),
    Fault.HALF_OPEN: (False, True),
}
"""Whether what clients send is held, and what they receive."""


class Proxy:
    """Passes connections on to a port on loopback.

    Args:
        target: the port.
        delay_s: how long each way takes.
    """

    def __init__(self, target: int, *, delay_s: float = 0.0) -> None:
        self.port = 0
        self._target = target
        self._delay_s = delay_s
        self._fault = Fault.NONE
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.fault = Fault.CUT
        await asyncio.gather(*self._tasks)

    @property
    def fault(self) -> Fault:
        """What it does now; set it to change that."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        self._fault = fault
        if fault is Fault.CUT:
            for writer in self._writers:
                _reset(writer)
        self._changed.set()
        self._changed = asyncio.Event()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._fault is Fault.CUT:
            _reset(writer)
            return
        try:
            back, out = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # nothing listens there yet, or any more
            _reset(writer)
            return
        self._writers |= {writer, out}
        try:
            await asyncio.gather(self._pump(reader, out, 0), self._pump(back, writer, 1))
        finally:
            self._writers -= {writer, out}
            writer.close()
            out.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: int
    ) -> None:
        with suppress(OSError):
            while data := await source.read(self._size_bytes()):
                while _HELD.get(self._fault, (False, False))[direction]:
                    await self._changed.wait()
                if self._fault is Fault.SLOW:
                    await asyncio.sleep(_SLOW_PAUSE_S)
                if self._delay_s:
                    # What is under way arrives, whatever happens to the link meanwhile.
                    asyncio.get_running_loop().call_later(self._delay_s, _write, sink, data)
                else:
                    sink.write(data)
                await sink.drain()
        await asyncio.sleep(self._delay_s)
        with suppress(OSError):
            sink.write_eof()

    def _size_bytes(self) -> int:
        return _SLOW_BYTES if self._fault is Fault.SLOW else _CHUNK_BYTES


def _write(sink: asyncio.StreamWriter, data: bytes) -> None:
    if not sink.is_closing():
        sink.write(data)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST rather than FIN."""
    with suppress(OSError):
        at_once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    writer.transport.abort()
