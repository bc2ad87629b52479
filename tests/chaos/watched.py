"""Runs a program that reports what it holds: `python -m tests.chaos.watched FILE searchbus_runtime edge`.

On SIGUSR1 it collects garbage, returns free memory to the system, and writes FILE: its tasks, its resident
memory, and the memory blocks that Python uses. Without that, resident memory keeps the peak of the busiest
moment.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import runpy
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from searchbus_testing import until


async def holdings(pid: int, path: Path) -> dict[str, Any]:
    """What a program that runs here holds now.

    Args:
        path: the FILE that it was started with.

    Returns:
        tasks: number by coroutine. rss_mib: resident memory. blocks: of Python's memory. objects:
        number by type, the most frequent ones.
    """
    path.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    await until(path.exists, timeout_s=300)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _report(path: Path) -> None:
    for _ in range(3):
        gc.collect()
    with suppress(AttributeError, OSError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    rss_mib = psutil.Process().memory_info().rss / 2**20
    blocks = sys.getallocatedblocks()
    tasks = Counter(task.get_coro().__qualname__ for task in asyncio.all_tasks())  # type: ignore[union-attr]
    objects = Counter(type(thing).__qualname__ for thing in gc.get_objects())
    report = {
        "tasks": tasks,
        "rss_mib": rss_mib,
        "blocks": blocks,
        "objects": dict(objects.most_common(200)),
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(report))
    part.rename(path)


def main(path: Path, module: str, *arguments: str) -> None:
    """Run the module as a program."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        _report(path)

    signal.signal(signal.SIGUSR1, on_signal)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
