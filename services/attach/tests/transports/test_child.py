"""The process of a command: limits, environment, and an end in every case."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import uvloop

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.transports import child as child_log
from searchbus_attach.transports import child as module
from searchbus_attach.transports.child import (
    MORE_OOM_SCORE,
    NICE,
    ChildLog,
    ServerProcess,
    child_environment,
    has_program,
)
from searchbus_attach.transports.reaper import MARK
from searchbus_attach.transports.reaping import Reaper
from searchbus_attach.upstream.connection import HttpNotes, why
from searchbus_runtime.secrecy import PUBLIC_VARIABLES, hide_environment
from searchbus_testing import eventually, until

from ..conftest import PROGRAM, plain


@pytest.fixture
def reaper():
    found = Reaper()
    yield found
    found.close()


def test_whether_a_program_is_there(tmp_path):
    """On its own PATH, and from the folder in which it starts."""
    own = tmp_path / "own"
    own.write_text("")
    own.chmod(0o700)
    in_own_path = {"command": "own", "env": {"PATH": str(tmp_path)}}
    for keys, is_there in (
        ({"command": sys.executable}, True),
        ({"command": "own"}, False),
        (in_own_path, True),
        ({"command": "./own", "cwd": str(tmp_path)}, True),
        ({"command": "./other", "cwd": str(tmp_path)}, False),
        ({"command": "${NAME_OF_PROGRAM}"}, True),
    ):
        assert has_program(parse_server("a", keys)) is is_there


async def ask(child: ServerProcess, name: str) -> dict:
    answer: dict = {}
    for message in (
        {"id": 1, "method": "initialize"},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": name, "arguments": {}}},
    ):
        child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        if "id" in message:
            answer = json.loads(await child.stdout.readline())
    return answer["result"]["structuredContent"]


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux may become another"
)
def test_a_service_that_is_not_root_and_keeps_secrets_starts_commands():
    """The files below /proc/self are then root's: such a service has no rights to them."""

    async def start() -> None:
        server = parse_server("near", {"command": "/bin/sh", "args": ["-c", "echo here; cat"]})
        # The reaper's own process is a Python, which this user may not be allowed to start.
        reaper = SimpleNamespace(starting=nullcontext, watch=lambda *_: None)
        child = await ServerProcess.start(server, reaper, print)
        assert await child.stdout.readline() == b"here\n"
        own = int(Path("/proc/self/oom_score_adj").read_text())
        its = Path(f"/proc/{child.pid}/oom_score_adj").read_text()
        assert int(its) == min(1000, own + MORE_OOM_SCORE)
        child.stdin.close()
        assert await child.exit_code(60) == 0

    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir("/")
            os.setuid(65_534)
            hide_environment()
            asyncio.run(start())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


async def test_it_has_limits_and_a_group_of_its_own(reaper, monkeypatch):
    """And of our environment only what it may have."""
    monkeypatch.setenv("SEARCHBUS_SECRET_THING", "x")
    monkeypatch.setenv("PASSED", "y")
    server = plain(env={"GIVEN": "z"}, pass_env=["PASSED"], memory_mib=512, open_files=64)
    child = await ServerProcess.start(server, reaper, print)
    found = await ask(child, "environment")
    assert psutil.Process(child.pid).nice() == min(19, psutil.Process().nice() + NICE)
    if sys.platform == "linux":
        ours, its = (Path(f"/proc/{one}/oom_score_adj") for one in ("self", child.pid))
        assert int(its.read_text()) == min(1000, int(ours.read_text()) + MORE_OOM_SCORE)
    await child.end()
    assert found["limits"] == {"data": 512 * 2**20, "files": 64}
    assert found["group"] == child.pid != os.getpgid(0)
    names = set(found["environment"])
    assert {"GIVEN", "PASSED", "PATH"} <= names
    # Python adds one for its locale.
    assert names <= {*PUBLIC_VARIABLES, MARK, "GIVEN", "PASSED", "LC_CTYPE"}


def test_what_is_given_wins_over_what_is_passed(monkeypatch):
    """A server may need a PATH of its own."""
    assert child_environment(plain(env={"PATH": "/own"}))["PATH"] == "/own"


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"ignore_term": True}], ids=["obeys", "ignores SIGTERM"])
async def test_it_ends_with_all_that_it_started(reaper, tmp_path, how):
    """Also a grandchild that nobody waits for."""
    server = plain({"spawn": str(tmp_path / "spawned"), **how})
    child = await ServerProcess.start(server, reaper, print)
    await until(lambda: (tmp_path / "spawned").exists() and (tmp_path / "spawned").read_text())
    grandchild = psutil.Process(int((tmp_path / "spawned").read_text()))
    await child.end()
    assert not psutil.pid_exists(child.pid)
    await until(lambda: not grandchild.is_running() or grandchild.status() == "zombie")


async def test_what_it_prints_to_standard_error_is_passed_on(reaper):
    """Line by line, cut where a line has no end."""
    texts: list[str] = []
    code = "import sys; sys.stderr.write('one\\n' + 'x' * 100000 + '\\ntwo')"
    server = plain().__class__(name="x", command=sys.executable, args=("-I", "-S", "-c", code))
    child = await ServerProcess.start(server, reaper, texts.append)
    await until(lambda: texts[-1:] == ["two"])
    lines = "\n".join(texts).split("\n")
    assert (lines[0], lines[2]) == ("one", "two")
    assert len(lines[1]) <= 2000
    await child.end()
    assert child.code == 0


async def test_one_that_prints_without_end_is_read_slowly(monkeypatch):
    """The others' work goes on meanwhile."""
    stderr = asyncio.StreamReader()
    stderr.feed_data(b"x\n" * 50_000)
    stderr.feed_eof()
    pauses, texts = [], []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await ServerProcess(SimpleNamespace(pid=1), Reaper())._read_stderr(stderr, texts.append)
    assert "\n".join(texts) == "\n".join(["x"] * 50_000)
    assert sum(pauses) == pytest.approx(50_000 / module._STDERR_LINES_PER_S)


async def test_the_loop_goes_on_while_a_command_is_started(reaper, monkeypatch):
    """Until its program runs it needs a CPU, for which it may wait."""
    threads = []
    popen = subprocess.Popen

    def start(arguments, **options):
        if arguments[0] == "cat":
            threads.append(threading.get_ident())
        return popen(arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    child = await ServerProcess.start(parse_server("x", {"command": "cat"}), reaper, print)
    await child.end()
    assert threading.get_ident() not in threads != []


async def test_a_command_whose_pipes_cannot_be_opened_is_ended(reaper, monkeypatch):
    """Nobody else knows of it."""
    started: list[int] = []

    def no_descriptor(_):
        started.extend(reaper._groups)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(module, "_taken", no_descriptor)
    server = parse_server("x", {"command": "sleep", "args": ["600"]})
    with pytest.raises(OSError, match="Too many"):
        await ServerProcess.start(server, reaper, print)
    await until(lambda: not psutil.pid_exists(started[0]))


async def test_what_it_printed_is_not_kept_after_its_end(reaper):
    """What refers to a lost connection is collected late."""
    server = parse_server("x", {"command": "yes"})
    child = await ServerProcess.start(server, reaper, print)
    await until(lambda: child.stdout._buffer)
    await child.end()
    assert not child.stdout._buffer


async def test_what_it_prints_before_its_end_is_kept(reaper, monkeypatch):
    """That says why it ended."""
    monkeypatch.setattr(module, "_STDERR_GRACE_S", 60.0)
    texts: list[str] = []
    code = "import sys; sys.stderr.write('line\\n' * 5000 + 'the reason\\n')"
    server = plain().__class__(name="x", command=sys.executable, args=("-I", "-S", "-c", code))
    child = await ServerProcess.start(server, reaper, texts.append)
    assert await child.exit_code(60.0) == 0
    await child.end()
    assert texts[-1].endswith("the reason")


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize(
    ("keys", "said"),
    [({"command": "no-such-program"}, "there is no program no-such-program"),
     ({"command": "true", "cwd": "/no/such/folder"}, "there is no folder /no/such/folder")],
)  # fmt: skip
def test_what_does_not_exist_is_named(reaper, loop, keys, said):
    """The program, or the folder that it should start in."""
    server = parse_server("x", keys)
    with asyncio.Runner(loop_factory=loop) as runner, pytest.raises(OSError) as raised:
        runner.run(ServerProcess.start(server, reaper, print))
    assert why(raised.value, HttpNotes()) == said


KILLED = """
import asyncio, json, sys
from searchbus_attach.transports.child import ServerProcess
from searchbus_attach.transports.reaping import Reaper
from searchbus_attach.declare.servers import parse_server
async def main():
    how = json.dumps({"ignore_term": True, "spawn": sys.argv[2]})
    keys = {"command": sys.executable, "args": ["-I", "-S", sys.argv[1], how]}
    child = await ServerProcess.start(parse_server("x", keys), Reaper(), print)
    print(child.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.slow
def test_it_does_not_outlive_us_when_we_are_killed(tmp_path):
    """Neither what it started, although it ignores SIGTERM and the end of its input."""
    spawned = tmp_path / "spawned"
    ours = subprocess.Popen(
        [sys.executable, "-c", KILLED, PROGRAM, spawned], stdout=subprocess.PIPE, text=True
    )
    pid = int(ours.stdout.readline())
    eventually(lambda: spawned.exists() and spawned.read_text())
    grandchild = int(spawned.read_text())
    os.kill(ours.pid, signal.SIGKILL)
    ours.wait()
    ours.stdout.close()

    def gone(pid: int) -> bool:
        return not Path(f"/proc/{pid}").exists() or psutil.Process(pid).status() == "zombie"

    eventually(lambda: gone(pid) and gone(grandchild))


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device stands for a full disk")
def test_a_full_disk_is_reported_once(tmp_path, caplog, capsys):
    """Not with a traceback for whatever a command prints."""
    (tmp_path / "attach-files.log").symlink_to("/dev/full")
    log = ChildLog("files", tmp_path)
    log.write("one")
    log.write("two")
    log.close()
    assert caplog.text.count("cannot be written") == 1
    assert "Traceback" not in capsys.readouterr().err


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
