"""One child process."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from searchbus_cli import children
from searchbus_cli.children import Child, GaveUpError, LogFile, Processes
from searchbus_cli.errors import StackError
from searchbus_testing import alive, eventually, until

SLEEPS = "import time; print('ready', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"


def child(program: str, **environment: str) -> Child:
    return Child("worker", [sys.executable, "-c", program], environment)


async def ready(process: Child, capsys: pytest.CaptureFixture[str]) -> None:
    seen = ""

    def printed() -> bool:
        nonlocal seen
        seen += capsys.readouterr().err
        return "ready" in seen

    await until(printed, timeout_s=60)


async def test_lines_get_the_name_and_the_environment_is_passed(capsys):
    """Both of its streams, with brackets as they are."""
    program = "import os, sys; print(os.environ['WORD']); print('[b]', file=sys.stderr)"
    process = child(program + "; sys.exit(2)", WORD="hello")
    with pytest.raises(GaveUpError):
        await process.keep_running(lambda _: None)
    printed = capsys.readouterr().err
    assert "      worker hello\n" in printed
    assert "      worker [b]\n" in printed


async def test_lines_go_to_the_log_and_only_there_unless_verbose(capsys, tmp_path):
    """The error has the last of them: nothing was on the screen."""
    process = child("print('loaded'); print('no such key'); raise SystemExit(2)")
    process.log, process.verbose = LogFile(tmp_path / "worker.log"), False
    with pytest.raises(
        GaveUpError, match=r"ended with code 2. The end of .*worker.log:\n  loaded\n  no "
    ):
        await process.keep_running(lambda _: None)
    assert capsys.readouterr().err == ""
    assert (tmp_path / "worker.log").read_text() == "loaded\nno such key\n"


async def test_first_errors_are_on_the_screen(capsys, tmp_path):
    """What is wrong with the data folder is seen at the start; a storm of errors is not."""
    code = "for n in range(9): print(f'[info     ] fine {n}'); print(f'[error    ] damaged {n}')"
    process = child(f"{code}\nraise SystemExit(2)")
    process.log, process.verbose = LogFile(tmp_path / "worker.log"), False
    with pytest.raises(GaveUpError):
        await process.keep_running(lambda _: None)
    printed = capsys.readouterr().err.splitlines()
    assert [line.split()[-2:] for line in printed] == [["damaged", str(n)] for n in range(3)]


async def test_restart_is_on_the_screen_and_in_the_log(capsys, tmp_path):
    """Whoever looks at either sees it."""
    process = child("raise SystemExit(3)")
    process.log, process.verbose = LogFile(tmp_path / "worker.log"), False
    keeper = asyncio.create_task(process.keep_running(lambda _: None))
    await until(lambda: "started again" in (tmp_path / "worker.log").read_text(), timeout_s=60)
    assert "ended with code 3" in capsys.readouterr().err
    await process.stop()
    keeper.cancel()


async def test_ended_process_is_started_again_until_it_is_stopped(capsys):
    """Each start is reported to the callback."""
    process, pids = child(SLEEPS), []
    keeper = asyncio.create_task(process.keep_running(lambda started: pids.append(started.pid)))
    await ready(process, capsys)
    assert process.process is not None
    process.process.send_signal(signal.SIGKILL)
    await until(lambda: len(pids) == 2, timeout_s=60)
    assert pids[0] != pids[1]
    await process.stop()
    await asyncio.wait_for(keeper, 60)
    assert process.pid is None


async def test_process_that_ends_at_once_is_given_up(monkeypatch):
    """After five quick ends, with its exit code."""
    waits = []

    async def no_wait(delay_s: float) -> None:
        waits.append(delay_s)

    monkeypatch.setattr(children.asyncio, "sleep", no_wait)
    starts = []
    with pytest.raises(GaveUpError, match="worker ended with code 3"):
        await child("raise SystemExit(3)").keep_running(starts.append)
    assert len(starts) == 5
    assert waits == sorted(waits)


async def test_what_cannot_be_started_is_given_up():
    """As one that ends at once: the other processes of a stack may work without it."""
    process = Child("worker", ["/no/such/program"])
    # Elsewhere what watches it is started, and says it in the log.
    said = r"cannot be started \(.*No such file" if children.KERNEL_ENDS_CHILDREN else "ended with"
    with pytest.raises(GaveUpError, match=f"worker {said}") as error:
        await process.keep_running(print)
    assert error.value.code == 1


async def test_wrong_settings_are_given_up_at_once():
    """Exit code 2: another start would end in the same way."""
    starts = []
    with pytest.raises(GaveUpError):
        await child("raise SystemExit(2)").keep_running(starts.append)
    assert len(starts) == 1


async def test_faults_of_settings_are_the_error(tmp_path):
    """What the process printed before is in the log."""
    lines = "'loading\\nerror: a: wrong.\\nerror: b: wrong.'"
    process = child(f"print({lines}); raise SystemExit(2)")
    process.log, process.verbose = LogFile(tmp_path / "worker.log"), False
    with pytest.raises(GaveUpError) as caught:
        await process.keep_running(lambda _: None)
    assert str(caught.value) == "a: wrong.\nerror: b: wrong."


async def test_process_that_ignores_sigterm_is_killed(capsys):
    """After the time that it may take."""
    process = child(STUBBORN)
    process.stop_s = 0.2
    keeper = asyncio.create_task(process.keep_running(lambda _: None))
    await ready(process, capsys)
    await process.stop()
    await asyncio.wait_for(keeper, 60)
    assert process.process is not None
    assert process.process.returncode == -signal.SIGKILL
    assert "it is killed" in capsys.readouterr().err


async def test_stop_before_the_start_and_twice_is_harmless():
    """A stack that fails while it starts stops everything."""
    process = child(SLEEPS)
    await process.stop()
    await process.stop()
    await process.keep_running(lambda _: None)
    assert process.process is None


KILLED_PARENT = """
import asyncio, os, signal, sys
from searchbus_cli import children
children.KERNEL_ENDS_CHILDREN = False
children.end_with_parent = None  # no call of the kernel before the program is started
async def main():
    child = children.Child("worker", [sys.executable, "-c", sys.argv[1]])
    asyncio.create_task(child.keep_running(lambda started: print(started.pid, flush=True)))
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_child_of_a_killed_parent_ends_where_the_kernel_does_not_end_it():
    """As on macOS: by a pipe."""
    parent = subprocess.Popen(
        [sys.executable, "-c", KILLED_PARENT, SLEEPS],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    eventually(lambda: not alive([pid]), timeout_s=60)


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


SLEEPING = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
async def processes():
    """They are stopped at the end."""
    starts: list[int] = []
    found = Processes(on_restart=lambda: starts.append(1))
    found.complete = True
    found.starts = starts
    yield found
    await found.stop()


async def test_every_start_is_reported_and_names_are_known(processes):
    """A process that was started again has another id."""
    child = Child("a", SLEEPING, verbose=False)
    processes.keep(child, "service")
    assert "a" in processes
    assert "b" not in processes
    await until(lambda: len(processes.starts) == 1, timeout_s=60)
    first = child.pid
    child.process.kill()
    await until(lambda: len(processes.starts) == 2 and child.pid != first, timeout_s=60)


async def test_processes_stop_by_their_kind(processes):
    """Edges first, NATS last, whatever was started first."""
    stopped = []

    class Recorded(Child):
        async def stop(self) -> None:
            await super().stop()
            stopped.append(self.name)

    for kind in ("nats", "fakes", "service", "edge"):
        processes.keep(Recorded(kind, SLEEPING, verbose=False), kind)
    await until(lambda: len(processes.starts) == 4, timeout_s=60)
    await processes.stop()
    assert stopped == ["edge", "service", "fakes", "nats"]


async def test_condition_is_waited_for_until_the_time_is_over(processes):
    """Then the error says what to do."""
    asked = []

    async def third() -> bool:
        asked.append(1)
        return len(asked) == 3

    async def never() -> bool:
        return False

    await processes.wait_until(third, timeout_s=600, otherwise="")
    with pytest.raises(StackError, match="Look at the log"):
        await processes.wait_until(never, timeout_s=0, otherwise="Look at the log.")


@pytest.mark.parametrize(("kind", "complete"), [("edge", True), ("nats", True), ("service", False)])
async def test_process_that_cannot_run_ends_every_wait(processes, kind, complete):
    """Exit code 2 says that its settings are wrong; a complete stack can do without a service."""
    processes.complete = complete

    async def never() -> bool:
        return False

    processes.keep(Child("b", [sys.executable, "-c", "raise SystemExit(2)"]), kind)
    async with asyncio.timeout(60):
        with pytest.raises(StackError, match="b ended with code 2"):
            await processes.wait(asyncio.Event())
        with pytest.raises(StackError, match="b ended with code 2"):
            await processes.wait_until(never, timeout_s=600, otherwise="")


async def test_wait_ends_when_it_is_told_to(processes):
    """And raises nothing."""
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, stop.set)
    await processes.wait(stop)


async def test_process_that_starts_while_it_is_stopped_does_not_stay(monkeypatch):
    """It was not there yet when the others got their signal."""
    process = child(SLEEPS)
    starting, go = asyncio.Event(), asyncio.Event()
    execute = Child._execute

    async def slowly(*arguments):
        starting.set()
        await go.wait()
        return await execute(*arguments)

    monkeypatch.setattr(Child, "_execute", slowly)
    keeper = asyncio.create_task(process.keep_running(lambda _: None))
    await starting.wait()
    await process.stop()
    go.set()
    async with asyncio.timeout(60):
        await keeper
    assert process.pid is None


@pytest.mark.parametrize("missing", [False, True])
def test_full_file_that_cannot_be_renamed_loses_lines_only(tmp_path, monkeypatch, missing):
    """On a full disk even an empty file cannot be made; the lines come back with the space."""
    log = LogFile(tmp_path / "web.log", max_bytes=5)
    log.write("the first line")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "open" if missing else "replace", full)
        log.write("lost")
        log.write("lost")
    log.write("last")
    log.close()
    text = (tmp_path / "web.log").read_text()
    assert text == "(2 lines could not be written)\nlast\n"
    assert (tmp_path / "web.log.1").read_text() == "the first line\n"
