"""The address of the edges; test_stack has edges that run."""

from __future__ import annotations

import socket

import pytest

from searchbus_cli.children import Child
from searchbus_cli.edges import Edges, check_port
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


class Recorded(Processes):
    """Keeps what should run, and runs nothing."""

    def keep(self, child: Child, kind: str) -> None:
        self.children.append(child)


@pytest.mark.parametrize("count", [1, 2])
async def test_first_edge_waits_for_the_workers_and_shares_its_port_only_with_others(
    tmp_path, count
):
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
    edges.start_first(["web", "ddg"])
    (child,) = processes.children
    assert not (tmp_path / "edge.port").exists()
    assert {
        "SEARCHBUS_HOST": "127.0.0.1",
        "SEARCHBUS_PORT": "0",
        "SEARCHBUS_REQUIRED_SERVICES": '["ddg", "web"]',
        "SEARCHBUS_PORT_FILE": str(tmp_path / "edge.port"),
        **({"SEARCHBUS_REUSE_PORT": "true"} if count > 1 else {}),
    } == child.environment
