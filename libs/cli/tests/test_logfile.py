"""The log of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from searchbus_cli.logfile import LogFile


def test_lines_are_appended_also_by_a_later_run(tmp_path):
    """At once: a process that is killed has written them."""
    path = tmp_path / "web.log"
    for line in ("one", "two \udcff"):
        log = LogFile(path)
        log.write(line)
        assert path.read_bytes().endswith(b"\n")
        log.close()
    assert path.read_text() == "one\ntwo ?\n"


def test_full_file_is_renamed(tmp_path):
    """One older file is kept."""
    path = tmp_path / "web.log"
    log = LogFile(path, max_bytes=100)
    for number in range(100):
        log.write(f"line {number}")
    log.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["web.log", "web.log.1"]
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) < 250
    assert path.read_text().endswith("line 99\n")


def test_lines_that_a_full_disk_loses_are_counted(tmp_path):
    """The process that writes them goes on."""
    log = LogFile(tmp_path / "web.log")
    log.write("one")
    file = log._file
    with Path("/dev/full").open("ab", buffering=0) as log._file:
        log.write("two")
        log.write("three")
    log._file = file
    log.write("four")
    log.write("five")
    log.close()
    text = (tmp_path / "web.log").read_text()
    assert text == "one\n(2 lines could not be written)\nfour\nfive\n"
    assert log.last(9) == ["one", "two", "three", "four", "five"]


def test_last_lines_are_known(tmp_path):
    """For the message that says why a process ended."""
    log = LogFile(tmp_path / "web.log")
    assert log.last(2) == []
    for number in range(100):
        log.write(str(number))
    assert log.last(2) == ["98", "99"]
    log.close()


def test_folder_that_is_absent_is_an_error(tmp_path):
    """The caller makes it."""
    with pytest.raises(FileNotFoundError):
        LogFile(tmp_path / "absent" / "web.log")
