"""Only regular files, up to a size."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from searchbus_ingest.sources.item import Reason, SkipError
from searchbus_ingest.sources.regular_file import open_regular, read_regular

LIMIT_BYTES = 1024 * 1024


def reason_of(path: Path) -> tuple[Reason, str]:
    with pytest.raises(SkipError) as caught:
        read_regular(path, max_bytes=LIMIT_BYTES)
    return caught.value.reason, caught.value.problem


def test_file_is_read_up_to_its_limit(tmp_path):
    """The message has the limit and what to do."""
    path = tmp_path / "a"
    path.write_bytes(b"x" * LIMIT_BYTES)
    assert read_regular(path, max_bytes=LIMIT_BYTES) == path.read_bytes()
    path.write_bytes(b"x" * (LIMIT_BYTES + 1))
    assert reason_of(path) == (
        Reason.TOO_LARGE, "the file is larger than 1 MiB, the limit of a file; split it",
    )  # fmt: skip


@pytest.mark.timeout(60)
def test_fifo_and_device_are_not_read(tmp_path):
    """Opening them does not wait, and nothing is read of a device."""
    os.mkfifo(tmp_path / "fifo")
    assert reason_of(tmp_path / "fifo") == (Reason.NOT_REGULAR, "a FIFO, not a regular file")
    assert reason_of(Path("/dev/null")) == (Reason.NOT_REGULAR, "a device, not a regular file")


def test_folder_and_socket_cannot_be_opened(tmp_path, monkeypatch):
    """The system refuses it."""
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path, max_bytes=LIMIT_BYTES)
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most about 100 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(OSError, match="No such device"):
            read_regular(Path("s"), max_bytes=LIMIT_BYTES)


def test_file_that_is_gone_or_changes_is_skipped(tmp_path):
    """It may be half written."""
    path = tmp_path / "a"
    assert reason_of(path)[0] is Reason.CHANGED
    path.write_text("Whales")

    def read_and_append() -> None:
        with open_regular(path, max_bytes=LIMIT_BYTES) as file:
            file.read()
            path.write_text("Whales sing.")

    with pytest.raises(SkipError, match="changed while it was read; run the ingest again"):
        read_and_append()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_file_without_a_size_is_limited_as_well():
    """Those of /proc say that they are empty."""
    with pytest.raises(SkipError) as caught:
        read_regular(Path("/proc/self/status"), max_bytes=10)
    assert caught.value.reason is Reason.TOO_LARGE
