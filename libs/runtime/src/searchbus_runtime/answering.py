"""What a child process that parses hostile input does (see child.py): it answers, within limits.

Standard input: `length[4] question`; standard output: `length[4] answer`.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable

from .parent import end_with_parent

LENGTH = struct.Struct(">I")


def answer_questions(answer: Callable[[bytes], bytes], *, memory_bytes: int, cpu_s: int) -> None:
    """Answer until standard input ends.

    Args:
        answer: raises nothing.
        memory_bytes: the most address space that the process may have (Linux).
        cpu_s: the most CPU time of an answer, in seconds; the process is ended after it.
    """
    # While it parses, nothing else notices that the parent was killed; elsewhere than on Linux only
    # the limit of CPU time ends it then.
    end_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it; the parent says what ends
    if sys.platform != "darwin":  # macOS refuses every limit of the address space
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A parser that prints must not corrupt the answers: its standard output becomes stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    questions, (_, most_s) = sys.stdin.buffer, resource.getrlimit(resource.RLIMIT_CPU)
    while head := questions.read(LENGTH.size):
        limit_s = int(time.process_time()) + 1 + cpu_s
        if most_s != resource.RLIM_INFINITY:
            limit_s = min(limit_s, most_s)
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, most_s))
        found = answer(questions.read(LENGTH.unpack(head)[0]))
        answers.write(LENGTH.pack(len(found)) + found)
        answers.flush()
