"""`searchbus doctor`."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import socket
from importlib.metadata import EntryPoint

import pytest
from nats.aio.msg import Msg

from searchbus_bus import Call, Worker, connect, endpoint
from searchbus_bus.client.discovery import EVERYONE
from searchbus_bus.live import LiveParts
from searchbus_cli import doctor as module
from searchbus_cli.errors import StackError
from searchbus_contracts import LivePart
from searchbus_contracts.attach import AttachedServer, StatusReply, StatusRequest
from searchbus_contracts.retrieval import CollectionInfo, ListReply, ListRequest
from searchbus_runtime import BusAddress, StackState, write_state
from searchbus_testing import run_command


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Without the checks of other packages, which load a model."""
    monkeypatch.delenv("SEARCHBUS_NATS_URL", raising=False)
    monkeypatch.setattr(module, "entry_points", lambda group: [])


def checks(data) -> tuple[int, dict[str, tuple[bool, str]]]:
    """The exit code, and each check's outcome and text."""
    done = run_command("doctor", "--json", "--data", data, "--port", "0")
    rows = json.loads(done.stdout)
    return done.returncode, {row["check"]: (row["ok"], row["message"]) for row in rows}


def test_machine_without_a_stack_is_in_order(tmp_path):
    """And says how to start one."""
    code, found = checks(tmp_path)
    assert code == 0, found
    names = {"python", "nats-server", "services", "data folder", "disk", "configuration"}
    names |= {"port", "stack"}
    assert names == set(found)
    assert "searchbus up" in found["stack"][1]
    assert "ddg, edge, retrieval" in found["services"][1]


def test_text_has_a_line_for_each_check(tmp_path):
    """For people."""
    lines = run_command("doctor", "--data", tmp_path, "--port", "0").stdout.splitlines()
    assert len(lines) == 8
    assert all(line.startswith("ok") for line in lines)


def test_wrong_settings_are_rows_and_the_rest_is_checked(tmp_path):
    """Each fault once, with the remedy."""
    (tmp_path / "searchbus.toml").write_text("isuer = 1\nport = []\n")
    done = run_command("doctor", "--json", "--data", tmp_path, "--port", "0")
    rows = [row for row in json.loads(done.stdout) if not row["ok"]]
    assert done.returncode == 1
    assert [row["check"] for row in rows] == ["configuration"] * 2
    assert "Did you mean issuer?" in rows[0]["message"]


def test_taken_port_is_a_failure(tmp_path):
    """With the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_command("doctor", "-o", "json", "--data", tmp_path, "--port", port)
    (row,) = [row for row in json.loads(done.stdout) if row["check"] == "port"]
    assert done.returncode == 1
    assert not row["ok"]
    assert row["message"].startswith(f"127.0.0.1:{port} cannot be used (Address already in use).")
    assert "Choose another --port" in row["message"]


def test_the_address_of_the_settings_is_checked(tmp_path, monkeypatch):
    """That is where `searchbus up` would listen."""
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("SEARCHBUS_PORT", str(port))
        (tmp_path / "searchbus.toml").write_text('[edge]\nhost = "127.0.0.2"\n')
        done = run_command("doctor", "--json", "--data", tmp_path)
    (row,) = [row for row in json.loads(done.stdout) if row["check"] == "port"]
    assert row["message"].startswith(f"127.0.0.2:{port} cannot be used")


def test_data_folder_that_cannot_be_looked_at_is_a_row(tmp_path, monkeypatch):
    """Below a folder that this user may not enter. Root may, so a name that is too long stands for it."""
    code, found = checks(tmp_path / ("a" * 300) / "data")
    assert code == 0, found
    assert found["data folder"][1].startswith(str(tmp_path))


@pytest.mark.parametrize("inside", ["", "folder"])
def test_data_folder_that_is_a_file_is_a_failure(tmp_path, inside):
    """Also where a part of its path is one."""
    path = tmp_path / "file"
    path.write_text("")
    code, found = checks(path / inside)
    assert code == 1
    assert found["data folder"] == (
        False, f"{path / inside}: {path} is not a folder; choose another with --data"
    )  # fmt: skip


def test_data_folder_that_cannot_be_written_is_a_failure(tmp_path, monkeypatch):
    """Permissions say nothing to root, nor on a read-only disk: it is tried."""

    def refused(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(module.tempfile, "TemporaryFile", refused)
    code, found = checks(tmp_path)
    assert code == 1
    assert "cannot be written (Read-only file system)" in found["data folder"][1]


def test_full_disk_and_broken_services_are_failures(tmp_path, monkeypatch):
    """Each check says what is wrong; the exit code is 1."""

    def broken(extra: object) -> None:
        raise StackError("A service cannot be loaded: x")

    monkeypatch.setattr(module, "find_services", broken)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage._replace(free=1))
    code, found = checks(tmp_path)
    assert code == 1
    assert found["services"] == (False, "A service cannot be loaded: x")
    assert found["disk"] == (False, "0.0 GiB free")


def test_check_of_a_package_that_raises_is_a_failure(tmp_path, monkeypatch):
    """It does not end the others."""
    entries = [
        EntryPoint("fine", f"{__name__.split('.')[-1]}:fine", "searchbus.checks"),
        EntryPoint("gone", "no_such_module:check", "searchbus.checks"),
    ]
    monkeypatch.setattr(EntryPoint, "load", lambda entry: _load(entry.name))
    monkeypatch.setattr(module, "entry_points", lambda group: entries)
    code, found = checks(tmp_path)
    assert code == 1
    assert found["fine"] == (True, "all is well")
    assert found["gone"][1].startswith("the check itself failed")


def _load(name: str):
    if name == "gone":
        raise ModuleNotFoundError("no_such_module")
    return lambda folder: (name, True, "all is well")


def test_stack_whose_edge_and_nats_are_gone(tmp_path):
    """The state file is there, its processes are not."""
    write_state(StackState("http://127.0.0.1:1", "nats://127.0.0.1:1", str(tmp_path), os.getpid()))
    code, found = checks(tmp_path)
    assert code == 1
    assert "does not answer" in found["edge"][1]
    assert found["nats"][0] is False


async def seen(url: str, worker: Worker, **expected: str) -> list[tuple[str, bool, str]]:
    """The rows of a bus with this worker."""
    options = {"prefix": f"doctor_{worker.service}"}
    bus = await connect(url, name="t", **options)
    await bus.serve(worker)
    found = await module._workers(BusAddress(url, options), expected)
    await bus.close()
    return found


async def test_damaged_collections_are_failures(nats_server):
    """Each with its reason and the remedy."""

    class Retrieval:
        @endpoint
        async def list_(self, call: Call, request: ListRequest) -> ListReply:
            """Two collections."""
            sound = CollectionInfo(name="sound", documents=1, chunks=1)
            cut = CollectionInfo(name="cut", documents=0, chunks=0, damage="29 of 60 points")
            return ListReply(collections=(sound, cut))

    worker = Worker("retrieval")
    worker.add(Retrieval())
    found = await seen(nats_server.url, worker)
    (row,) = [row for row in found if row[0].startswith("collection")]
    assert row[:2] == ("collection cut", False)
    assert row[2].startswith("29 of 60 points; put its folder back")


class Breaker:
    """A part of this process, in one state."""

    def __init__(self, kind: str, name: str, state: str) -> None:
        self.part = LivePart(kind=kind, name=name, state=state, until_ms=4_000_000_000_000)


_breakers: LiveParts[Breaker] = LiveParts(lambda breaker: breaker.part)


async def test_open_breakers_and_waiting_servers_are_rows(nats_server):
    """What the console's overview shows, from the same replies; names are no control characters."""

    class Attach:
        @endpoint
        async def status(self, call: Call, request: StatusRequest) -> StatusReply:
            """Three servers."""
            return StatusReply(
                servers=(
                    AttachedServer(name="away", state="down", target="x", problem="it \x1bended"),
                    AttachedServer(name="files", state="up", target="x", held=2),
                    AttachedServer(name="well", state="up", target="x"),
                )
            )

    kept = [
        Breaker("breaker", "brave\x1b", "open"),
        Breaker("breaker", "tavily", "suspected"),
        Breaker("egress", "direct", "closed"),
        Breaker("key", "sbk-1", "open"),
    ]
    for one in kept:
        _breakers.watch(one)
    worker = Worker("attach")
    worker.add(Attach())
    found = await seen(nats_server.url, worker)
    rows = {name: (ok, text) for name, ok, text in found}
    shown = [name for name in rows if name.split()[0] in ("breaker", "egress", "key")]
    assert "key sbk-1" in shown
    assert not {"breaker tavily", "egress direct"} & set(shown)
    (brave,) = [name for name in shown if name.startswith("breaker brave")]
    assert rows[brave][0] is False
    assert "not used until" in rows[brave][1]
    assert rows["key sbk-1"][1].endswith("check the key")
    assert rows["failed away"][0] is False
    assert "searchbus attach show away" in rows["failed away"][1]
    assert rows["attached held files"][0] is True
    assert not any("well" in name for name in rows)
    assert not any("\x1b" in name + text for name, _, text in found)


def test_services_of_an_installation_elsewhere_have_to_answer(monkeypatch):
    """Those that are declared and always started, or those that the setting names."""
    monkeypatch.setenv("SEARCHBUS_NATS_URL", "nats://127.0.0.1:1")
    found = module._expected(None)
    assert found["connector"] == "edge"
    assert {"retrieval", "toolindex", "web", "ddg"} <= set(found)
    assert "attach" not in found
    monkeypatch.setenv("SEARCHBUS_REQUIRED_SERVICES", '["toolindex"]')
    assert module._expected(None) == {"toolindex": "toolindex"}


async def test_workers_that_answer_and_those_that_do_not(nats_server):
    """By the names of the declarations."""
    found = await seen(nats_server.url, Worker("present"), present="present", others="other")
    # Breakers of other tests may still be alive in this process, and the worker names them.
    outcomes = {name: ok for name, ok, _ in found if not name.startswith("breaker ")}
    assert outcomes == {"nats": True, "worker present": True, "worker others": False}


async def test_worker_that_answers_late_is_there(nats_server, monkeypatch):
    """Its process is busy: it is late for the question to everyone, and slow with its own."""
    respond = Msg.respond

    async def late(self: Msg, data: bytes) -> None:
        if self.subject != EVERYONE:
            await asyncio.sleep(0.6)  # longer than the others are waited for
            await respond(self, data)

    monkeypatch.setattr(Msg, "respond", late)
    rows = await seen(nats_server.url, Worker("busy"), busy="busy")
    assert {name: ok for name, ok, _ in rows}["worker busy"]
