"""The events of a stream of `text/event-stream`, read from its bytes as they come.

    reader = EventReader(max_bytes=2**20)
    for data in reader.read(b"id: 7\\ndata: {}\\n\\n"):
        ...

httpx2 decodes the text, encodes it again and makes an object of each event, for four times the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import httpx2

_MAX_RETRY_DIGITS = 9
_MAX_ID_BYTES = 1024


class EventReader:
    """Reads one stream, or one that goes on on another connection.

    Args:
        max_bytes: a larger event is an error.
        kept_bytes: a larger one is not kept; `on_dropped` gets its size.

    Attributes:
        last_id: of the last event that had one; `None` before.
        retry_s: seconds after which the server wants to be asked again; `None`: it named none.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        kept_bytes: float = math.inf,
        on_dropped: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._max_bytes = max_bytes
        self._kept_bytes = kept_bytes
        self._on_dropped = on_dropped
        self.last_id: str | None = None
        self.retry_s: float | None = None
        self.begin()

    def begin(self) -> None:
        """Expect the start of a stream."""
        self._line = bytearray()
        self._data = bytearray()
        self._id = self.last_id
        self._is_message = True
        self._size_bytes = 0
        self._after_cr = False

    def read(self, part: bytes) -> Iterator[bytes]:
        """The data of each message that ends in this part; other types of events are dropped.

        Raises:
            httpx2.SSEError: an event is larger than the limit.
        """
        if self._after_cr and part.startswith(b"\n"):
            part = part[1:]
        self._after_cr = part.endswith(b"\r")
        # Most of a large event has no end of a line: to look for one is cheap, to split is not.
        lines = part.splitlines() if b"\n" in part or b"\r" in part else [part]
        rest = b"" if part.endswith((b"\n", b"\r")) else lines.pop()
        for line in lines:
            if self._line:
                if self._size_bytes <= self._kept_bytes:
                    self._size_bytes -= len(self._line)
                line, self._line = bytes(self._line) + line, bytearray()
            if line:
                self._take(line)
                continue
            self.last_id = self._id  # only now: an event that is cut off is asked for again
            if self._size_bytes > self._kept_bytes:
                self._on_dropped(self._size_bytes)
            elif self._data and self._is_message:
                yield bytes(self._data)
            self._data, self._is_message, self._size_bytes = bytearray(), True, 0
        self._line += rest
        self._grow(len(rest))

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                if self._data:
                    value = b"\n" + value
                self._grow(len(value))
                self._data += value
            case b"event":
                self._is_message = value in (b"", b"message")
            # It goes back in a header, which others cannot be in, with each request for the stream.
            case b"id" if b"\0" not in value and value.isascii() and len(value) <= _MAX_ID_BYTES:
                self._id = value.decode() or None
            case b"retry" if value.isdigit():
                self.retry_s = int(value[:_MAX_RETRY_DIGITS]) / 1000

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        if self._size_bytes > min(self._kept_bytes, self._max_bytes):
            self._data.clear()
            del self._line[1:]  # one byte says that the line is not empty
        if self._size_bytes > self._max_bytes:
            raise httpx2.SSEError(f"an event is larger than {self._max_bytes} bytes")
