"""Child processes that answer: framing, limits, and their end."""

from __future__ import annotations

import asyncio
import io
import os
import resource
import signal
import sys
import time
from types import SimpleNamespace

import pytest

from searchbus_runtime import answering
from searchbus_runtime import child as child_module
from searchbus_runtime.answering import LENGTH, answer_questions
from searchbus_runtime.child import Child, ChildEndedError

CHILD = """
import os, time
from searchbus_runtime.answering import answer_questions

def answer(question):
    print("a parser prints")
    if question == b"ends":
        os._exit(1)
    if question == b"works":
        while True:
            pass
    if question == b"hangs":
        time.sleep(1e6)
    if question == b"large":
        return bytes(2**27 + 1)
    if question == b"environment":
        return " ".join(os.environ).encode()
    return question[:5] + question[-5:]

answer_questions(answer, memory_bytes=2**32, cpu_s=1)
"""


@pytest.fixture
async def child(tmp_path, monkeypatch):
    """A process that ends, hangs, or says what it is asked."""
    (tmp_path / "answers_for_test.py").write_text(CHILD)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "struct.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path / "documents")
    path = os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("SEARCHBUS_TAVILY_API_KEYS", "canary")
    found = Child("answers_for_test")
    await found.start()
    yield found
    await found.stop()


def run(
    monkeypatch, questions: list[bytes], limits: list[tuple[int, int]] | None = None
) -> list[bytes]:
    """Be a child in this process, which has no limits then."""
    told = b"".join(LENGTH.pack(len(body)) + body for body in questions)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(told)))
    kept = limits if limits is not None else []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, most: kept.append((kind, most[0])))
    monkeypatch.setattr(answering, "end_with_parent", lambda number: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    answers = io.BytesIO()
    monkeypatch.setattr(os, "fdopen", lambda *_: answers)
    monkeypatch.setattr(os, "dup", lambda number: number)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    answer_questions(bytes.upper, memory_bytes=2**30, cpu_s=9)
    answers.seek(0)
    found = []
    while head := answers.read(LENGTH.size):
        found.append(answers.read(LENGTH.unpack(head)[0]))
    return found


def test_every_question_has_an_answer(monkeypatch):
    """In order, until standard input ends."""
    assert run(monkeypatch, [b"one", b"", b"three"]) == [b"ONE", b"", b"THREE"]


@pytest.mark.parametrize(("platform", "limits"), [("linux", ["AS", "CORE"]), ("darwin", ["CORE"])])
def test_memory_is_limited_where_the_system_can(monkeypatch, platform, limits):
    """macOS refuses every limit of the address space: nothing would be parsed there."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(sys, "platform", platform)
    assert run(monkeypatch, [], found) == []
    names = {resource.RLIMIT_AS: "AS", resource.RLIMIT_CORE: "CORE"}
    assert [names[kind] for kind, _ in found] == limits


def test_each_question_may_take_its_cpu_time(monkeypatch):
    """Besides what those before it took; no more than the process may."""
    used = iter((7.5, 20.0, 95.0))
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(time, "process_time", lambda: next(used))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (100, 100))
    run(monkeypatch, [b"one", b"two", b"three"], found)
    assert [most for kind, most in found if kind == resource.RLIMIT_CPU] == [17, 30, 100]


async def test_child_that_works_without_end_is_ended_by_the_system(child):
    """Also where its parent was killed, and nobody else ends it: the limit is the system's."""
    with pytest.raises(ChildEndedError):
        await child.ask(b"works", 600.0)


async def test_child_answers_what_is_larger_than_a_pipe(child):
    """What it prints is no answer."""
    question = b"begin" + bytes(3 * 2**20 + 1) + b"ended"
    assert await child.ask(question, 60.0) == b"beginended"


async def test_child_has_no_settings_and_imports_nothing_of_the_current_folder(child):
    """Parsers of hostile input get no keys; a folder of documents may have a struct.py."""
    names = (await child.ask(b"environment", 60.0)).decode().split()
    assert {*names} <= {"PATH", "LANG", "PYTHONPATH", "LC_CTYPE"}


class Dying:
    """A process that takes long to end once it is killed."""

    returncode = None

    def __init__(self) -> None:
        self.stdin, self.stdout = self, asyncio.StreamReader()
        self.killed, self.gone = asyncio.Event(), asyncio.Event()

    def write(self, data: bytes) -> None:
        """Takes what it is asked."""

    async def drain(self) -> None:
        """It has room."""

    def kill(self) -> None:
        self.killed.set()

    async def communicate(self) -> None:
        await self.gone.wait()


async def test_a_child_that_is_being_killed_is_asked_nothing(monkeypatch):
    """Nor does its end, which comes later, stop the one that was started in its place."""
    dying, next_one = Dying(), Dying()
    child = Child("unused")
    child._process = dying
    asking = asyncio.create_task(child.ask(b"", 0.01))
    await dying.killed.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert not child.is_alive()
    child._process = next_one
    dying.gone.set()
    await asyncio.sleep(0.01)
    assert child.is_alive()
    assert not next_one.killed.is_set()


@pytest.mark.parametrize("question", [b"ends", b"large"])
async def test_child_that_ended_is_started_again(child, question, monkeypatch):
    """Its caller is told. What it has not read of an answer holds up nothing."""
    monkeypatch.setattr(child_module, "_PIECE_BYTES", 100)  # so much is read ahead
    await child.start()
    with pytest.raises(ChildEndedError):
        await child.ask(question, 60.0)
    assert not child.is_alive()
    await child.start()
    assert await child.ask(b"again", 60.0) == b"againagain"


async def test_child_that_takes_long_is_killed(child):
    """The caller decides how long."""
    assert await child.ask(b"loads", 60.0)
    process = child._process
    with pytest.raises(TimeoutError):
        await child.ask(b"hangs", 0.1)
    assert process.returncode == -signal.SIGKILL
    assert not child.is_alive()
