"""NATS and the fake upstreams, started for a stack; see also test_stack."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from searchbus_cli import stack_servers
from searchbus_cli.errors import StackError
from searchbus_cli.stack_servers import start_fakes, start_nats


class Processes:
    """Keeps processes without starting them; waits until a condition holds at once."""

    def __init__(self, started) -> None:
        self.kept: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._started = started

    def keep(self, child, kind: str) -> None:
        self.kept[kind] = child
        self._started(*child)

    async def wait_until(self, holds, *, timeout_s: float, otherwise: str) -> None:
        if not await holds():
            raise StackError(otherwise)


def new_child(label, command, environment):
    return command, environment


async def test_nats_is_started_again_on_its_first_port(tmp_path, monkeypatch):
    """Every process of the stack knows it."""
    monkeypatch.setattr(stack_servers, "bound_port", lambda folder: 4321)
    (tmp_path / "nats").mkdir()
    (tmp_path / "nats" / "of-the-last-run").touch()
    first: list[str] = []

    def started(command, environment) -> None:
        first.append(Path(command[-1]).read_text())

    processes = Processes(started)
    port = await start_nats(
        tmp_path, processes, new_child, authorization="authorization: {token: secret}"
    )
    assert port == 4321
    again = Path(processes.kept["nats"][0][-1]).read_text()
    assert not re.search(r"\b4321\b", first[0])
    assert re.search(r"\b4321\b", again)
    assert "token: secret" in first[0]
    assert "token: secret" in again
    assert not (tmp_path / "nats" / "of-the-last-run").exists()


async def test_nats_that_does_not_start_is_an_error_with_the_logs(tmp_path, monkeypatch):
    """What it printed is there."""
    monkeypatch.setattr(stack_servers, "bound_port", lambda folder: None)
    with pytest.raises(StackError, match=r"did not start within .* See .*logs"):
        await start_nats(tmp_path, Processes(lambda *child: None), new_child, authorization="")


async def test_settings_of_the_fakes_are_those_that_they_write(tmp_path):
    """Not those of the last run."""
    written = tmp_path / "fakes.json"
    written.write_text(json.dumps({"environment": {"A": "old"}}))

    def started(command, environment) -> None:
        assert not written.exists()
        assert (Path(environment["PYTHONPATH"]) / "tests" / "fakes").is_dir()
        Path(command[-1]).write_text(json.dumps({"environment": {"A": "new"}}))

    assert await start_fakes(tmp_path, Processes(started), new_child) == {"A": "new"}
    with pytest.raises(StackError, match="fake upstreams did not start"):
        await start_fakes(tmp_path, Processes(lambda *child: None), new_child)
