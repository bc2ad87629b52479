"""Runs tests in several processes, each forked from the one that has collected the tests.

Collecting ten thousand tests takes as long as running a thousand of them. Processes that are
started as programs, as those of pytest-xdist are, would each collect them again.
"""

from __future__ import annotations

import io
import os
import random
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from searchbus_runtime.parent import end_with_parent

from .processes import watch_this_process

__all__ = ["run_forked"]


def run_forked(session: pytest.Session, unit_of: Callable[[str], str], count: int) -> bool:
    """Run the collected tests in `count` processes; for the hook `pytest_runtestloop`.

    Args:
        unit_of: id of a test → its unit. The tests of a unit run in one process, one after the
            other. Half of the processes begin with the first unit, the others with the last one:
            where units that wait come first, others compute meanwhile.

    Raises:
        Session.Failed, Session.Interrupted: the run ends early, e.g. by the option -x.
    """
    units: dict[str, list[int]] = {}
    for index, item in enumerate(session.items):
        units.setdefault(unit_of(item.nodeid), []).append(index)
    _Run(session, deque(units.values())).run(min(count, len(units)))
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


@dataclass
class _Process:
    """A process as the first one sees it.

    Args:
        node: has the name that pytest's terminal prints before a result.
        left: the tests of its unit that it has not finished.
    """

    pid: int
    number: int
    connection: Connection
    node: SimpleNamespace
    left: deque[int] = field(default_factory=deque)


class _Run:
    def __init__(self, session: pytest.Session, units: deque[list[int]]) -> None:
        self._session = session
        self._units = units
        self._processes: dict[Connection, _Process] = {}
        self._started = 0

    def run(self, count: int) -> None:
        """Give the units to processes and report what they did."""
        session = self._session
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        try:
            for _ in range(count):
                self._fork()
            while self._processes and not (session.shouldfail or session.shouldstop):
                for connection in wait([*self._processes]):
                    self._receive(self._processes[connection])  # type: ignore[index]
        finally:
            # Where the run ends early, each of them ends after the test that it runs.
            for connection in self._processes:
                connection.close()
            for process in self._processes.values():
                os.waitpid(process.pid, 0)

    def _fork(self) -> None:
        number, self._started = self._started, self._started + 1
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for connection in (ours, *self._processes):
                connection.close()
            _serve(self._session, theirs, number)
        theirs.close()
        name = SimpleNamespace(id=f"p{number}")
        node = SimpleNamespace(gateway=name, _workerinfocache="")
        process = _Process(pid, number, ours, node)
        self._processes[ours] = process
        self._give_unit(process)

    def _give_unit(self, process: _Process) -> None:
        unit: list[int] = []
        if self._units:
            unit = self._units.pop() if process.number % 2 else self._units.popleft()
        process.left.extend(unit)
        with suppress(OSError):  # it has ended, as the next message says
            process.connection.send(unit)

    def _receive(self, process: _Process) -> None:
        try:
            kind, data = process.connection.recv()
        except (EOFError, OSError):
            self._end(process)
            return
        hook = self._session.config.hook
        if kind == "warning":
            shown = warnings.WarningMessage(*data.pop("shown"))
            hook.pytest_warning_recorded.call_historic(kwargs={**data, "warning_message": shown})
            return
        report = hook.pytest_report_from_serializable(config=self._session.config, data=data)
        report.node = process.node
        hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown" and process.left:
            process.left.popleft()
            if not process.left:
                self._give_unit(process)

    def _end(self, process: _Process) -> None:
        """Where it ended within a test, that one has failed; another one runs what is left."""
        del self._processes[process.connection]
        process.connection.close()
        _, status = os.waitpid(process.pid, 0)
        if not process.left:
            return
        item = self._session.items[process.left.popleft()]
        text = f"The process ended: {os.waitstatus_to_exitcode(status)}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self._session.config.hook.pytest_runtest_logreport(report=report)
        if process.left:
            self._units.appendleft([*process.left])
        self._fork()


def _serve(session: pytest.Session, connection: Connection, number: int) -> NoReturn:
    """Run units in a process that was forked, until an empty one."""
    status = 1
    try:
        _settle(session.config, number)
        plugins = session.config.pluginmanager
        terminal = plugins.get_plugin("terminalreporter")
        plugins.unregister(terminal)
        plugins.register(_Reporter(session.config, connection, terminal), "terminalreporter")
        hook = session.config.hook
        # What a session's fixtures made stays until the last unit has run.
        keep = SimpleNamespace(listchain=lambda: [session])
        item: pytest.Item | None = None
        while unit := connection.recv():
            for index, following in zip(unit, [*unit[1:], None], strict=True):
                item = session.items[index]
                after = keep if following is None else session.items[following]
                hook.pytest_runtest_protocol(item=item, nextitem=after)
        call = pytest.CallInfo.from_call(lambda: _tear_down(session), "teardown")
        if call.excinfo is not None and item is not None:
            report = hook.pytest_runtest_makereport(item=item, call=call)
            hook.pytest_runtest_logreport(report=report)
        status = 0
    except (BrokenPipeError, EOFError, KeyboardInterrupt):
        pass  # the run ends early
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            _tear_down(session)
        os._exit(status)


def _tear_down(session: pytest.Session) -> None:
    session._setupstate.teardown_exact(None)


def _settle(config: pytest.Config, number: int) -> None:
    """Take what a process must not share: captured output, temporary folders, random numbers."""
    end_with_parent()
    watch_this_process()
    random.seed()
    manager: Any = config.pluginmanager.get_plugin("capturemanager")
    capturing = manager._global_capturing
    for stream in filter(None, (capturing.out, capturing.err)):  # with -s there are none
        # The objects stay: a module may have taken sys.stderr as a default.
        with suppress(io.UnsupportedOperation), TemporaryFile() as own:
            os.dup2(own.fileno(), stream.tmpfile.fileno(), inheritable=False)
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"p{number}"
    factory._basetemp.mkdir(mode=0o700)


class _Reporter:
    """Sends what the first process is to print, in place of the terminal."""

    def __init__(self, config: pytest.Config, connection: Connection, terminal: Any) -> None:
        self._config = config
        self._connection = connection
        self._tw = terminal._tw  # pytest-timeout writes to it

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        """Send a warning, whose class the first process may not know."""
        given = warning_message
        text = f"{given.category.__name__}: {given.message}"
        shown = (text, Warning, given.filename, given.lineno)
        data = {"shown": shown, "when": when, "nodeid": nodeid, "location": location}
        self._connection.send(("warning", data))
