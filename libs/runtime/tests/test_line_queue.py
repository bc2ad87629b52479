"""Lines that a thread writes in their order."""

from __future__ import annotations

import threading
import time

import pytest

from searchbus_runtime.logs import LineQueue
from searchbus_testing import eventually


def test_lines_are_written_in_order_by_the_thread() -> None:
    """Nobody flushes."""
    written: list[tuple[bytes, str]] = []

    def write(lines: list[bytes]) -> None:
        written.extend((line, threading.current_thread().name) for line in lines)

    queue = LineQueue(write, name="writer", every_s=0.01, max_queued=100)
    lines = [b"%d" % number for number in range(5)]
    assert all(queue.add(line) for line in lines)
    eventually(lambda: written == [(line, "writer") for line in lines])
    queue.close()


def test_full_queue_refuses_lines_and_keeps_those_before() -> None:
    written: list[bytes] = []
    queue = LineQueue(written.extend, name="writer", every_s=3600, max_queued=2)
    assert [queue.add(line) for line in (b"a", b"b", b"c")] == [True, True, False]
    queue.close()
    assert written == [b"a", b"b"]


def test_many_lines_come_in_parts() -> None:
    """So that one write is not without bound."""
    sizes: list[int] = []
    queue = LineQueue(
        lambda lines: sizes.append(len(lines)), name="w", every_s=3600, max_queued=3000
    )
    for _ in range(2500):
        queue.add(b"x")
    queue.flush()
    assert sizes == [1000, 1000, 500]
    queue.close()


def test_without_lines_the_thread_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """It flushes after a line, and not again until the next one."""
    written: list[bytes] = []
    flushed = []
    queue = LineQueue(written.extend, name="writer", every_s=0.001, max_queued=10)
    flush = queue.flush
    monkeypatch.setattr(queue, "flush", lambda: (flushed.append(len(written)), flush()))
    queue.add(b"a")
    eventually(lambda: written == [b"a"])
    time.sleep(0.1)
    assert len(flushed) <= 2  # a second one where the line came while the first began
    queue.add(b"b")
    eventually(lambda: written == [b"a", b"b"])
    queue.close()


def test_close_ends_the_thread_whenever_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also just before it begins a flush, which clears what would wake it."""
    queue = LineQueue(lambda _: None, name="writer", every_s=0.001, max_queued=10)
    closed, wait = queue._closed, queue._closed.wait

    def wait_before_close(timeout_s: float) -> bool:
        monkeypatch.setattr(closed, "wait", wait)
        closed.set()
        queue._waiting.set()
        return False

    monkeypatch.setattr(closed, "wait", wait_before_close)
    queue.add(b"a")
    assert queue._thread is not None
    queue._thread.join(timeout=60)
    assert not queue._thread.is_alive()


def test_lines_wake_no_thread_that_comes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it writes, and until a tick has found no line."""
    begun, go_on, woken = threading.Event(), threading.Event(), []

    def write(lines: list[bytes]) -> None:
        begun.set()
        go_on.wait(60)

    queue = LineQueue(write, name="writer", every_s=0.001, max_queued=10)
    queue.add(b"a")
    assert begun.wait(60)
    with monkeypatch.context() as patch:
        patch.setattr(queue._waiting, "set", lambda: woken.append(True))
        assert all(queue.add(b"b") for _ in range(5))
    assert woken == []
    go_on.set()
    queue.close()
