"""Services that are forked from the launcher: they are as if they had been started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from searchbus_cli.children import Child
from searchbus_cli.launching import ForkedProcess, Launcher
from searchbus_testing import descendants, eventually, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the launcher needs Linux")

REPORTS = """
import json, os, sys
own_session = os.getsid(0) == os.getpid()
print(json.dumps([dict(os.environ), os.getppid(), own_session, sys.stdin.read()]), flush=True)
print("to the other stream", file=sys.stderr)
sys.exit(3)
"""
SLEEPS = "import os, time; print('ready', os.getpid(), flush=True); time.sleep(600)"
STARTS_AND_WAITS = """
import asyncio, sys
from searchbus_cli.launching import Launcher
async def main():
    process = await Launcher.open().start(["sleeps"], {})
    print(process.pid, flush=True)
    await process.wait()
asyncio.run(main())
"""


@pytest.fixture
async def launcher(tmp_path, monkeypatch):
    """Beside modules that work as they are imported."""
    (tmp_path / "reports.py").write_text(REPORTS)
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    opened = Launcher.open(["no_such_module"])
    assert opened is not None
    yield opened
    await opened.close()


async def start(launcher: Launcher, module: str, **environment: str) -> ForkedProcess:
    process = await launcher.start([module], environment)
    assert process is not None
    return process


async def test_service_has_the_given_environment_and_our_process_as_parent(launcher):
    """And a session of its own, no input, both streams as output, and its exit code."""
    process = await start(launcher, "reports", WORD="hello")
    environment, parent, own_session, given = json.loads(await process.stdout.readline())
    assert (environment, parent, own_session, given) == ({"WORD": "hello"}, os.getpid(), True, "")
    assert await process.stdout.readline() == b"to the other stream\n"
    assert await process.wait() == process.returncode == 3


async def test_service_is_our_child_once_its_id_is_known(launcher):
    """One that is ended at once, by Ctrl-C while a stack starts, could not be waited for."""
    for _ in range(30):
        process = await start(launcher, "sleeps")
        assert psutil.Process(process.pid).ppid() == os.getpid()
        process.terminate()
        await process.wait()


async def test_signals_reach_the_service(launcher):
    """Until it has ended."""
    process = await start(launcher, "sleeps")
    assert await process.stdout.readline() == b"ready %d\n" % process.pid
    process.terminate()
    assert await process.wait() == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        process.kill()


async def test_services_go_on_when_the_launcher_is_closed(launcher):
    """A closed one starts nothing more; closing twice is harmless."""
    process = await start(launcher, "sleeps")
    await launcher.close()
    await launcher.close()
    assert await launcher.start(["sleeps"], {}) is None
    assert process.returncode is None
    process.kill()
    assert await process.wait() == -signal.SIGKILL


async def test_what_a_launcher_cannot_start_is_left_to_the_caller(launcher):
    """An environment that does not fit into a request; and after its end everything."""
    assert await launcher.start(["sleeps"], {"LARGE": "x" * 2**22}) is None
    launcher._process.kill()
    assert await launcher.start(["sleeps"], {}) is None


async def test_child_is_forked_first_and_then_started_as_a_program(launcher, capsys):
    """A process that ends later starts again without the launcher."""
    child = Child("toy", [sys.executable, "-c", SLEEPS], service=("sleeps",), launcher=launcher)
    started = []
    keeper = asyncio.create_task(child.keep_running(lambda one: started.append(one.process)))
    printed = ""

    def ready() -> bool:
        nonlocal printed
        printed += capsys.readouterr().err
        return "toy ready" in printed

    await until(ready, timeout_s=60)
    assert f"toy ready {started[0].pid}\n" in printed
    await launcher.close()
    started[0].kill()
    await until(lambda: len(started) == 2, timeout_s=60)
    assert [type(process) for process in started] == [
        ForkedProcess,
        asyncio.subprocess.Process,
    ]
    await child.stop()
    await asyncio.wait_for(keeper, 60)


def test_services_end_when_the_process_that_launched_them_is_killed(tmp_path, monkeypatch):
    """As they do when they were started as programs."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    service = psutil.Process(int(parent.stdout.readline()))
    others = descendants(parent.pid)
    assert service.pid in {process.pid for process in others}
    parent.kill()
    parent.wait()
    for process in others:
        eventually(
            lambda p=process: not p.is_running() or p.status() == psutil.STATUS_ZOMBIE,
            timeout_s=60,
        )
