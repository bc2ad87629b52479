"""Freed memory that a process keeps."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from searchbus_runtime import heap

PROGRAM = """
import resource
from searchbus_runtime.heap import keep_freed_memory

keep, rounds, size_bytes = {keep}, 20, 10 * 2**20
assert not keep or keep_freed_memory(64 * 2**20)
for number in range(rounds + 3):
    if number == 3:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [b"x" * size_bytes for _ in range(3)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*, keep: bool) -> int:
    """Page faults of twenty rounds, in a process of its own."""
    program = PROGRAM.format(keep=keep)
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    return int(found.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the option")
def test_large_values_are_made_in_memory_that_is_kept():
    """Without it each round asks the system for most of 30 MiB again."""
    without = faults(keep=False)
    if not without:
        pytest.skip("this system does not count page faults")
    assert faults(keep=True) * 4 < without


def test_another_c_library_is_left_as_it_is(monkeypatch):
    """Such as that of macOS."""
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: object())
    assert not heap.keep_freed_memory(2**20)
