"""The process that parses pages: `python -m searchbus_web.extraction.child`, started by pool.py.

Standard input: `length[4] Question` as MessagePack (reading.py); standard output: `length[4]
Answer`. The process limits its own memory (not on macOS); pool.py kills it when an answer takes too
long.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
import sys

import msgspec

from searchbus_pages import TooComplexError
from searchbus_runtime.parent import end_with_parent

from .reading import Answer, PageText, Question, answer

__all__ = ["main"]

MEMORY_BYTES = 1024 * 2**20
LENGTH = struct.Struct(">I")


def main() -> None:
    """Answer until standard input ends."""
    # While a page is parsed, nothing else notices that the service was killed.
    end_with_parent(signal.SIGKILL)
    if sys.platform != "darwin":  # macOS refuses every limit of the address space
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A parser that prints must not corrupt the replies: its standard output becomes stderr.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import trafilatura  # noqa: F401  (the first page should not wait for this import)

    requests = sys.stdin.buffer
    while head := requests.read(LENGTH.size):
        body = requests.read(LENGTH.unpack(head)[0])
        question: Question = msgspec.msgpack.decode(body, type=Question)
        found: Answer
        try:
            found = answer(question)
        except (MemoryError, TooComplexError):
            found = PageText(problem="too_complex")
        except Exception:  # parsers raise errors of every kind on hostile pages
            found = PageText(problem="parse_error")
        reply = msgspec.msgpack.encode(found)
        replies.write(LENGTH.pack(len(reply)) + reply)
        replies.flush()


if __name__ == "__main__":
    main()
