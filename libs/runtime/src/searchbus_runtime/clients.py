"""Which clients use a stack that one of them started: each holds the pipe `<data>/clients` open.

The kernel closes the pipe with the process that holds it, however that process ends. A line in the
pipe is the toolset that a new client wants; the end of the pipe means that no client is left.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PIPE = "clients"
EVERYTHING = "*"
"""In the place of a toolset: the client wants all of them."""
_READ_BYTES = 4096


def make_pipe(data: Path) -> int:
    """Open the stack's end, to be its standard input; returns the descriptor.

    Raises:
        OSError: the folder cannot hold a pipe.
    """
    path = data / PIPE
    with suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def join_clients(data: Path, toolset: str | None) -> int | None:
    """Count as a client until the returned descriptor is closed.

    Returns:
        `None` where no stack counts its clients: none runs, or it runs without them.
    """
    try:
        descriptor = os.open(data / PIPE, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # no pipe, or none who reads it
        return None
    try:
        os.write(descriptor, f"{toolset or EVERYTHING}\n".encode())
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


class ClientPipe:
    """The stack's end of the pipe.

    Args:
        descriptor: of the end that `make_pipe` opened.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._rest = b""

    def read(self) -> list[str] | None:
        """The toolsets that new clients want; `None` where no client is left."""
        read = self._rest
        while True:
            try:
                piece = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                break
            if not piece:
                return None
            read += piece
        *lines, self._rest = read.split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def close(self) -> None:
        """Stop counting."""
        os.close(self.descriptor)
