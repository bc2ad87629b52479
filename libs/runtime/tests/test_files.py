"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import stat
import threading
import time

import pytest

from searchbus_runtime.files import (
    RESERVE_BYTES,
    LineQueue,
    file_stamp,
    space_for_start,
    write_atomically,
)
from searchbus_testing import eventually


@pytest.mark.parametrize("data", ["grüße\n", "grüße\n".encode()])
def test_text_and_bytes_replace_the_old_content(tmp_path, data):
    """Text is UTF-8; nothing but the file is left in the folder."""
    path = tmp_path / "state.json"
    path.write_text("old, and longer than the new content")
    write_atomically(path, data)
    assert path.read_text(encoding="utf-8") == "grüße\n"
    assert [path] == list(tmp_path.iterdir())


def test_mode_is_set_exactly(tmp_path):
    """The umask does not take part, and the mode of an older file does not stay."""
    path = tmp_path / "keys.json"
    path.touch(0o644)
    write_atomically(path, "secret", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_atomically(path, "public", mode=0o666)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_without_a_mode_the_umask_decides(tmp_path):
    """As for any other new file."""
    (tmp_path / "other").write_text("")
    write_atomically(tmp_path / "file", "x")
    assert (tmp_path / "other").stat().st_mode == (tmp_path / "file").stat().st_mode


def test_failed_write_keeps_the_old_content(tmp_path, monkeypatch):
    """No draft stays behind either."""
    path = tmp_path / "file"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [path] == list(tmp_path.iterdir())


def test_missing_folder_is_an_error(tmp_path):
    """The caller decides where folders are made."""
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "file", "x")


def test_the_stamp_changes_with_the_content_and_with_who_may_read_it(tmp_path):
    """A file that could not be read is read again when its permissions change."""
    path = tmp_path / "state.json"
    assert file_stamp(path) is None
    path.write_text("one")
    first = file_stamp(path)
    assert file_stamp(path) == first
    path.chmod(0)
    unreadable = file_stamp(path)
    write_atomically(path, "two", mode=0o600)
    assert len({first, unreadable, file_stamp(path)}) == 3


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


PLENTY = 2**40


def test_reserve_is_kept_while_there_is_space(tmp_path):
    """Its blocks are allocated: a file with holes would reserve nothing."""
    path = tmp_path / ".reserve-nats"
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: RESERVE_BYTES):
        assert not path.exists()
    assert not path.exists()
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        assert path.stat().st_blocks * 512 >= RESERVE_BYTES
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: RESERVE_BYTES):
        assert path.exists()


def test_each_start_on_a_full_disk_leaves_the_rest_of_the_reserve_to_the_next(tmp_path):
    """A start needs a part of it only; what it did not need would be filled by logs and traces."""
    path = tmp_path / ".reserve-nats"
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        pass
    for left in (RESERVE_BYTES - 100_000, RESERVE_BYTES - 200_000):
        free = iter((0, left))
        with space_for_start(tmp_path, "nats", free_bytes=lambda folder, free=free: next(free)):
            assert not path.exists()
        assert path.stat().st_size == left
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        assert path.stat().st_size == RESERVE_BYTES


def test_start_that_fails_on_a_full_disk_keeps_the_rest_as_well(tmp_path):
    """The next attempt needs it."""
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        pass
    free = iter((0, RESERVE_BYTES))
    with (
        pytest.raises(RuntimeError, match="NATS"),
        space_for_start(tmp_path, "nats", free_bytes=lambda folder: next(free)),
    ):
        raise RuntimeError("NATS did not start")
    assert (tmp_path / ".reserve-nats").exists()


def test_start_that_used_all_of_the_reserve_says_so(tmp_path, caplog):
    """And leaves no empty file."""
    (tmp_path / ".reserve-nats").write_bytes(b"x")
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: 0):
        pass
    assert "nothing is left for another start" in caplog.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
def test_reserve_that_cannot_be_made_does_not_stop_the_start(tmp_path, monkeypatch, caplog):
    """Nothing of it stays."""

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        pass
    assert "No space left" in caplog.text
    assert list(tmp_path.iterdir()) == []
