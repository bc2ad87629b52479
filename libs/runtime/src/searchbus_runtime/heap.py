"""Freed memory that a process keeps, for services that handle values of megabytes.

glibc gives the end of its heap back to the system as soon as twice the largest block that was freed
lies there. The next large value is then made in memory that the system must find and clear page by
page: half the CPU time of reading a document of 5 MiB.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_LARGEST_BLOCK_BYTES = 32 * 1024 * 1024
"""Larger blocks are given back one by one; glibc allows no more."""


def keep_freed_memory(size_bytes: int) -> bool:
    """Keep up to this much freed memory; False, and nothing done, where the C library is not glibc.

    What a busy moment needed stays resident up to this size.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    block_bytes = min(size_bytes, _LARGEST_BLOCK_BYTES)
    kept = set_option(_M_TRIM_THRESHOLD, size_bytes)
    return bool(kept and set_option(_M_MMAP_THRESHOLD, block_bytes))
