"""Files of hostile formats are read in a process of their own."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from searchbus_fakes.web import pdf_of
from searchbus_ingest.sources import content, reading
from searchbus_ingest.sources.content import PARSED, SUFFIXES
from searchbus_ingest.sources.item import Reason, SkipError
from searchbus_ingest.sources.reading import Reader, answered
from searchbus_testing import until


@pytest.fixture
async def reader(monkeypatch):
    monkeypatch.setattr(reading, "PARSED", PARSED)
    async with Reader() as found:
        yield found


@pytest.fixture
def stopped(monkeypatch, reader):
    """The process of the reader is stopped, as by a file that hangs it; its content are these."""
    found = []
    ask = reader._child.ask

    async def asked(question, timeout_s):
        if b"hangs" in question:
            reader._child._process.send_signal(signal.SIGSTOP)
            found.append(reader._child._process)
            timeout_s = min(timeout_s, reading.TIMEOUT_S)
        return await ask(question, timeout_s)

    monkeypatch.setattr(reader._child, "ask", asked)
    return found


async def test_one_process_reads_all_files(reader):
    """With the titles, notes and reasons that they have in this process."""
    found = await reader.read(b"<title>Whales</title><p>They sing.", ".html")
    first = reader._child._process
    assert found == content.read_content(b"<title>Whales</title><p>They sing.", ".html")
    assert (await reader.read(pdf_of("They sing."), ".pdf")).text == "They sing."
    with pytest.raises(SkipError, match="not readable as a Word") as problem:
        await reader.read(b"PK", ".docx")
    assert problem.value.reason is Reason.UNREADABLE
    deep = b"<div>" * 40_000
    with pytest.raises(SkipError, match="nests too deeply") as problem:
        await reader.read(deep, ".html")
    assert problem.value.reason is Reason.TOO_COMPLEX
    assert reader._child._process is first


async def test_text_needs_no_process(reader):
    """Nothing but a decoder reads it."""
    for suffix in SUFFIXES - PARSED - {".json"}:
        assert (await reader.read(b"They sing.", suffix)).text == "They sing."
    assert reader._child._process is None


async def test_file_that_hangs_costs_itself_only(reader, stopped, monkeypatch):
    """Its process is killed, and the next file has a new one."""
    assert reading.TIMEOUT_S == 120.0
    monkeypatch.setattr(reading, "TIMEOUT_S", 0.1)
    with pytest.raises(SkipError, match="takes longer than 0 s; split it") as problem:
        await reader.read(b"hangs", ".html")
    assert problem.value.reason is Reason.TOO_COMPLEX
    assert [process.returncode for process in stopped] == [-signal.SIGKILL]
    monkeypatch.setattr(reading, "TIMEOUT_S", 120.0)
    assert (await reader.read(b"<p>They sing.", ".html")).text == "They sing."


async def test_read_that_is_cancelled_ends_at_once(reader, stopped):
    """So does a sync at SIGTERM: nothing waits for a parser."""
    task = asyncio.create_task(reader.read(b"hangs", ".html"))
    await until(lambda: stopped)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [process.returncode for process in stopped] == [-signal.SIGKILL]


async def test_file_that_crashes_its_parser_costs_itself_only(reader):
    """As pdfium may."""
    await reader.read(b"<p>x", ".html")
    os.kill(reader._child._process.pid, signal.SIGSTOP)
    task = asyncio.create_task(reader.read(b"<p>y", ".html"))
    os.kill(reader._child._process.pid, signal.SIGKILL)
    with pytest.raises(SkipError, match="the process that read it ended"):
        await task
    assert (await reader.read(b"<p>z", ".html")).text == "z"


async def test_process_that_does_not_start_is_said(reader, monkeypatch):
    """Of the file; the next one tries again."""
    monkeypatch.setattr(reader._child, "_module", "searchbus_ingest.no_such_module")
    with pytest.raises(SkipError, match="does not start"):
        await reader.read(b"<p>x", ".html")


@pytest.mark.parametrize(
    ("error", "problem"), [(MemoryError(), b"more than 2 GiB of memory"), (KeyError(), b"KeyError")]
)
def test_errors_of_parsers_are_problems_of_the_file(monkeypatch, error, problem):
    """Also those that its reader does not know."""

    def fails(*_):
        raise error

    monkeypatch.setattr(reading, "read_content", fails)
    assert problem in answered(reading._WARM)
