"""What commands print to standard error is kept, within limits."""

from __future__ import annotations

import logging

import pytest

from searchbus_attach.transports import child_log
from searchbus_attach.transports.child_log import ChildLog


def test_lines_are_in_a_file_of_the_server(tmp_path):
    """Without control characters."""
    log = ChildLog("files", tmp_path)
    log.write("one \x1b[2J")
    log.close()
    assert (tmp_path / "attach-files.log").read_text().endswith(" one \\x1b[2J\n")
    assert log.told == f"; see {tmp_path / 'attach-files.log'}"


def test_many_lines_at_once_have_a_time_each(tmp_path):
    """A command can print thousands."""
    log = ChildLog("files", tmp_path)
    log.write("one\ntwo")
    log.close()
    one, two = (tmp_path / "attach-files.log").read_text().splitlines()
    assert one.removesuffix("one") == two.removesuffix("two") != ""


def test_the_file_does_not_grow_without_end(tmp_path, monkeypatch):
    """One older file is kept."""
    monkeypatch.setattr(child_log, "_MAX_BYTES", 1000)
    log = ChildLog("files", tmp_path)
    for number in range(200):
        log.write(f"line {number}")
    log.close()
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) < 3000


def test_several_that_write_to_one_file_replace_it_once(tmp_path, monkeypatch):
    """No line is lost between the older file and this one."""
    monkeypatch.setattr(child_log, "_MAX_BYTES", 1000)
    logs = [ChildLog("files", tmp_path) for _ in range(3)]
    for number in range(200):
        logs[number % 3].write(f"line {number}")
    for log in logs:
        log.close()
    older = tmp_path / "attach-files.log.1"
    assert older.stat().st_size >= 1000
    lines = (older.read_text() + (tmp_path / "attach-files.log").read_text()).splitlines()
    numbers = [int(line.rpartition(" ")[2]) for line in lines]
    assert numbers == list(range(200 - len(numbers), 200))


def test_without_a_folder_lines_are_in_our_own_log(caplog):
    """At debug."""
    caplog.set_level(logging.DEBUG)
    ChildLog("files", None).write("hello")
    assert "files: hello" in caplog.text


def test_a_file_that_cannot_be_written_is_reported_once(tmp_path, caplog):
    """The server goes on."""
    (tmp_path / "file").write_text("")
    log = ChildLog("files", tmp_path / "file")
    log.write("one")
    log.write("two")
    assert caplog.text.count("cannot be written") == 1


@pytest.mark.parametrize("text", ["", " \n "])
def test_a_command_that_printed_nothing_has_no_log(tmp_path, text):
    """There is no file to look into."""
    log = ChildLog("files", tmp_path)
    assert log.told == ", and printed nothing to standard error"
    if text:
        log.write(text)
        assert log.told == ", and printed nothing to standard error"


def test_without_a_folder_the_last_lines_are_told():
    """Without control characters and without values of the declaration."""
    key = "-----BEGIN-----\nabcdef\n-----END-----"
    log = ChildLog("files", None, ["word", "word-and-more", "1", key])
    log.write("first\n\n1 \x1b[2J key word is wrong\nword-and-more")
    log.write("a\nabcdef\n" + "x" * 1000)
    assert log.told.split("\n") == [
        ". It printed last:",
        "  1 \\x1b[2J key *** is wrong",
        "  ***",
        "  a",
        "  ***",
        "  " + "x" * 200,
    ]
