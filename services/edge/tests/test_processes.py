"""Several processes on one port, as a pod with several cores has them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from searchbus_testing import eventually, free_port


@pytest.fixture
def edge(own_nats_server, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """The parent, the address of the edge, the address of its health."""
    port, health = free_port(), free_port()
    settings = {
        "NATS_URL": own_nats_server("-js", "-sd", str(tmp_path / "js")).url,
        "DATA_DIR": tmp_path, "PORT": port, "HEALTH_PORT": health, "PROCESSES": 2,
        "REQUIRED_SERVICES": "[]",
    }  # fmt: skip
    environment = {f"SEARCHBUS_{name}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "searchbus_runtime", "edge"], env={**os.environ, **environment}
    )
    yield process, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{health}"
    process.kill()
    process.wait()


def is_ready(health: str) -> bool:
    try:
        return httpx.get(f"{health}/readyz", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.slow
def test_processes_of_one_pod_are_one_edge(edge):
    """One health port for all; the kernel spreads connections; a signal ends all of them."""
    process, url, health = edge
    eventually(lambda: is_ready(health), timeout_s=120)
    assert len(httpx.get(f"{health}/readyz").json()["processes"]) == 2
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    for _ in range(40):
        assert httpx.post(f"{url}/mcp", json=ping, headers=accept, timeout=30).status_code == 200
    metrics = httpx.get(f"{health}/metrics").text
    assert set(re.findall(r'process="(\d)"', metrics)) == {"0", "1"}
    counted = r'mcp_server_operation_duration_seconds_count\{process="(\d)".*ping.*\} (\d+)'
    served = re.findall(counted, metrics)
    assert [number for number, _ in served] == ["0", "1"]
    assert sum(int(float(count)) for _, count in served) == 40
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0


@pytest.mark.slow
def test_when_one_process_is_killed_the_container_ends(edge):
    """What runs it starts it again, as where there is one process only."""
    process, _, health = edge
    eventually(lambda: is_ready(health), timeout_s=120)
    children = psutil.Process(process.pid).children()
    assert len(children) == 2
    children[0].kill()
    assert process.wait(120) == 1
    assert not children[1].is_running()
