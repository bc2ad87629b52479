"""The process that reads pages: `python -m searchbus_web.extraction.child`, spoken to by pool.py.

Standard input: `length[4] Page` as MessagePack; standard output: `length[4] Text`. It limits its
own memory; it is killed when it takes too long.
"""

from __future__ import annotations

import os
import resource
import struct
import sys

import msgspec

from .reading import Page, Text, read_page

__all__ = ["main"]

MEMORY_BYTES = 1024 * 2**20
LENGTH = struct.Struct(">I")


def main() -> None:
    """Answer until standard input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A parser that prints must not garble the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import trafilatura  # noqa: F401  (loaded before the first page is waited for)

    requests = sys.stdin.buffer
    while head := requests.read(LENGTH.size):
        body = requests.read(LENGTH.unpack(head)[0])
        page = msgspec.msgpack.decode(body, type=Page)
        try:
            text = read_page(page)
        except MemoryError:
            text = Text(problem="too_complex")
        except Exception:  # parsers raise what they like; the page has no text then
            text = Text(problem="parse_error")
        answer = msgspec.msgpack.encode(text)
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    main()
