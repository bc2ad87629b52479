"""The events of a stream of `text/event-stream`, read from its bytes as they come.

    reader = EventReader(max_bytes=2**20)
    for data in reader.read(b"id: 7\\ndata: {}\\n\\n"):
        ...

httpx2 decodes the text, encodes it again and makes an object of each event, for four times the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2

_LINE_END = re.compile(rb"\r\n|\n|\r")
_MAX_RETRY_DIGITS = 9


class EventReader:
    """Reads one stream, or one that goes on on another connection.

    Attributes:
        last_id: of the last event that had one; `None` before.
        retry_s: seconds after which the server wants to be asked again; `None`: it named none.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
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
        *lines, rest = _LINE_END.split(part)
        for line in lines:
            if self._line:
                self._size_bytes -= len(self._line)
                line, self._line = bytes(self._line) + line, bytearray()
            if line:
                self._take(line)
                continue
            self.last_id = self._id  # only now: an event that is cut off is asked for again
            if self._data and self._is_message:
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
            # It goes back in a header, which others cannot be in.
            case b"id" if b"\0" not in value and value.isascii():
                self._id = value.decode() or None
            case b"retry" if value.isdigit():
                self.retry_s = int(value[:_MAX_RETRY_DIGITS]) / 1000

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        if self._size_bytes > self._max_bytes:
            raise httpx2.SSEError(f"an event is larger than {self._max_bytes} bytes")
