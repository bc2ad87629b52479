"""The address of the edges; test_stack has edges that run."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from searchbus_cli.children import Child
from searchbus_cli.edges import Edges, _is_ready, check_port
from searchbus_cli.errors import StackError
from searchbus_cli.processes import Processes


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
        logs=tmp_path,
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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            assert _is_ready("127.0.0.1", server.server_port) is ready
        finally:
            server.shutdown()
