"""What a command starts ends with it, wherever it went."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.transports import child
from searchbus_attach.transports.child import ServerProcess
from searchbus_attach.transports.reaper import MARK, NICE
from searchbus_attach.transports.reaping import Reaper
from searchbus_testing import alive, descendants, eventually, until

from ..conftest import plain

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and adoption of orphans"),
]
LEAVES = """
import os, subprocess, sys, time
environment = {} if sys.argv[2] == "unmarked" else None
for _ in range(int(sys.argv[3])):
    if not os.fork():
        if sys.argv[2] == "parent":
            # Its parent stays, but has left the session before.
            os.setsid()
            subprocess.Popen(["sh", "-c", "echo $$ >> " + sys.argv[1] + "; exec sleep 600"],
                             env={}, start_new_session=True).wait()
        subprocess.Popen(["sh", "-c", "echo $$ >> " + sys.argv[1] + "; exec sleep 600"],
                         env=environment, start_new_session=True)
        os._exit(0)
sys.stdin.read()
"""


@pytest.fixture
def reaper():
    found = Reaper()
    yield found
    found.close()


def leaving(path: Path, how: str, number: int = 1, **keys: object):
    """A command that starts processes which leave its session and their parents."""
    arguments = ["-I", "-S", "-c", LEAVES, shlex.quote(str(path)), how, str(number)]
    return parse_server("x", {"command": sys.executable, "args": arguments, **keys})


async def started(path: Path, number: int = 1) -> list[psutil.Process]:
    """The processes, which have written their ids."""
    await until(lambda: path.exists() and path.read_text().count("\n") == number)
    return [psutil.Process(int(line)) for line in path.read_text().split()]


async def test_the_reaper_ends_with_what_it_watches(reaper):
    """And runs again with the next command."""
    for _ in range(2):
        first, second = [await ServerProcess.start(plain(), reaper, print) for _ in range(2)]
        process = reaper._process
        await first.end()
        assert process.poll() is None
        await second.end()
        await until(lambda: reaper._process is None)
        assert process.poll() == 0


async def test_what_left_the_session_of_a_command_ends_with_it(reaper, tmp_path):
    """An orphan of it is found by the mark; it is collected too."""
    one = await ServerProcess.start(leaving(tmp_path / "one", "marked"), reaper, print)
    other = await ServerProcess.start(leaving(tmp_path / "other", "marked"), reaper, print)
    (orphan,) = await started(tmp_path / "one")
    (stays,) = await started(tmp_path / "other")
    await one.end()
    await until(lambda: not psutil.pid_exists(orphan.pid))
    assert stays.is_running()
    await other.end()
    # The reaper may end before it collects the last one, which is then the system's.
    await until(lambda: not alive({stays.pid}))


async def test_what_left_before_the_reaper_knew_the_command_is_found(reaper, tmp_path, monkeypatch):
    """A busy machine may take a second between its start and its watch."""
    path = tmp_path / "one"

    def start_slowly(*arguments: object, **keys: object) -> subprocess.Popen:
        process = subprocess.Popen(*arguments, **keys)
        eventually(lambda: path.exists() and path.read_text().endswith("\n"))
        orphan = psutil.Process(int(path.read_text()))
        eventually(lambda: orphan not in descendants(process.pid))
        return process

    slow = SimpleNamespace(**vars(subprocess) | {"Popen": start_slowly})
    monkeypatch.setattr(child, "subprocess", slow)
    command = await ServerProcess.start(leaving(path, "marked"), reaper, print)
    (orphan,) = await started(path)
    await command.end()
    await until(lambda: not alive({orphan.pid}))


async def test_what_has_no_mark_is_found_by_its_parent(reaper, tmp_path):
    """One session further, and with an empty environment."""
    command = await ServerProcess.start(leaving(tmp_path / "one", "parent"), reaper, print)
    (orphan,) = await started(tmp_path / "one")
    await command.end()
    await until(lambda: not orphan.is_running())


async def test_an_orphan_without_a_mark_is_killed_where_commands_are_the_only_children(tmp_path):
    """That is so in the service: it hides from whoever looks for it. One that was seen before it
    left belongs to its command, and ends with that; another command keeps the reaper, which kills
    none that takes long to start."""
    script = "\n".join(
        [
            "import asyncio, json, os, subprocess, sys, time",
            "from pathlib import Path",
            "from types import SimpleNamespace",
            "from searchbus_attach.declare.servers import parse_server",
            "from searchbus_attach.transports import child",
            "from searchbus_attach.transports.reaping import Reaper",
            "def start_slowly(*arguments, **keys):",
            "    process = subprocess.Popen(*arguments, **keys)",
            "    time.sleep(2)",
            "    return process",
            "child.subprocess = SimpleNamespace(**vars(subprocess) | {'Popen': start_slowly})",
            "async def main():",
            "    reaper = Reaper(every=True)",
            "    command, other = [",
            "        await child.ServerProcess.start(parse_server('x', one), reaper, print)",
            "        for one in json.loads(sys.argv[1])",
            "    ]",
            "    path = Path(sys.argv[2])",
            "    while not (path.exists() and path.read_text().endswith('\\n')):",
            "        await asyncio.sleep(0.02)",
            "    pid = int(path.read_text())",
            "    await command.end()",
            "    while Path(f'/proc/{pid}').exists():",
            "        await asyncio.sleep(0.02)",
            "    print('gone', other.code, flush=True)",
            "    await other.end()",
            "    reaper.close()",
            "asyncio.run(main())",
        ]
    )
    path = tmp_path / "one"
    servers = [leaving(path, "unmarked"), plain()]
    keys = [{"command": one.command, "args": list(one.args)} for one in servers]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, json.dumps(keys), str(path), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), 300)
    assert output.decode() == "gone None\n"


AUTOGROUP = Path("/proc/self/autogroup")


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="the kernel does not group sessions")
async def test_what_left_the_session_of_a_command_gets_no_more_cpu_time_than_the_command(
    reaper, tmp_path
):
    """Where the kernel shares CPU time among sessions; the session of the service is as before."""
    before = AUTOGROUP.read_text()
    command = await ServerProcess.start(leaving(tmp_path / "one", "marked"), reaper, print)
    (orphan,) = await started(tmp_path / "one")
    groups = [Path(f"/proc/{pid}/autogroup") for pid in (command.pid, orphan.pid)]

    async def held_back() -> bool:
        return all(group.read_text().endswith(f" nice {NICE}\n") for group in groups)

    async def undone() -> bool:
        with suppress(BlockingIOError):  # the kernel takes few of these a second
            groups[0].write_text("0")
            return True
        return False

    await until(held_back)
    await until(undone)
    await until(held_back)
    assert AUTOGROUP.read_text() == before
    await command.end()


async def test_processes_that_left_the_session_count(reaper, tmp_path):
    """A command with too many is ended, and they with it, also before all have written their
    ids."""
    path = tmp_path / "many"
    path.touch()
    command = await ServerProcess.start(leaving(path, "marked", 5, processes=4), reaper, print)
    await until(lambda: command.has_too_many)
    await command.end()
    await until(lambda: not any(psutil.pid_exists(int(one)) for one in path.read_text().split()))


async def test_orphans_end_when_the_service_is_killed(reaper, tmp_path):
    """They belong to somebody else by then."""
    command = await ServerProcess.start(leaving(tmp_path / "one", "marked"), reaper, print)
    (orphan,) = await started(tmp_path / "one")
    await until(lambda: MARK in orphan.environ())  # empty while it becomes another program
    mark = orphan.environ()[MARK]
    other = Reaper()
    other.watch(command.pid, 9, mark)
    os.kill(reaper._process.pid, signal.SIGKILL)
    other.close()
    await until(lambda: not orphan.is_running() or orphan.status() == "zombie")
    await command.end()
