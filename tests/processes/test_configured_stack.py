"""One configuration file for all processes of a stack, and for one that is started alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from searchbus_testing import Stack, eventually, free_port

pytestmark = pytest.mark.slow

TOY = '''
import msgspec

from searchbus_bus import Call, Toolset, Worker, tool
from searchbus_contracts import ToolAnnotations
from searchbus_contracts.services import Service
from searchbus_runtime import ServiceSettings


class ToySettings(ServiceSettings):
    """Settings of a service that is not installed."""

    toy_sides: int = 6
    toy_color: str = "red"


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


class Toy(Toolset, name="toy"):
    """A toy."""

    def __init__(self, text: str) -> None:
        self._text = text

    @tool(title="Settings", annotations=ToolAnnotations(read_only_hint=True), timeout_ms=5_000)
    async def toy_settings(self, call: Call, arguments: Nothing) -> str:
        """The settings of the toy."""
        return self._text


async def start(process):
    worker = Worker("toy", version="0.1.0")
    found = process.settings
    worker.add(Toy(f"{found.toy_sides} {found.toy_color} {found.log_level} {found.max_in_flight}"))
    await process.serve(worker)


SERVICE = Service(name="toy", start="toy:start", settings="toy:ToySettings", toolsets=("toy",))
'''


@pytest.fixture(scope="module")
def configured(tmp_path_factory) -> Iterator[Stack]:
    """A stack whose file lies elsewhere than its data."""
    folder = tmp_path_factory.mktemp("configured")
    (folder / "toy.py").write_text(TOY)
    port = free_port()
    file = folder / "mine.toml"
    file.write_text(
        f'embedder = "hash"\nlog_level = "warning"\nmax_in_flight = 5\nport = {port}\n'
        '[toy]\ntoy_sides = 20\nlog_level = "error"\n'
    )
    environment = {k: v for k, v in os.environ.items() if k != "SEARCHBUS_EMBEDDER"}
    stack = Stack(
        folder / "data",
        ("--config", "mine.toml", "--service", "toy=toy"),
        {**environment, "SEARCHBUS_TOY_COLOR": "blue"},
        folder,
    )
    stack.start()
    yield stack
    stack.stop()


def test_processes_have_the_settings_of_the_file_and_the_environment(configured):
    """Those of the top, of the table of the service, and of the variable."""
    done = configured.command("tools", "call", "toy_settings")
    assert done.returncode == 0, done.stderr + configured.log
    assert done.stdout.strip() == "20 blue error 5"


def test_option_comes_before_the_file(configured):
    """`--port 0` took a free one."""
    text = (configured.folder / "mine.toml").read_text()
    assert str(httpx.URL(configured.url).port) not in text


def test_service_that_is_started_alone_reads_the_file(configured, tmp_path):
    """As in a container: the file is mounted, and a variable names it."""
    file = tmp_path / "searchbus.toml"
    health = free_port()
    file.write_text(
        f"nats_url = {json.dumps(configured.state['nats_url'])}\n"
        f"[ddg]\nhealth_port = {health}\n[edge]\nport = 1\n"
    )
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SEARCHBUS_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "searchbus_runtime", "ddg"],
        env={**inherited, "SEARCHBUS_CONFIG": str(file), "SEARCHBUS_DATA_DIR": str(tmp_path)},
        cwd=tmp_path,
    )
    try:
        eventually(lambda: _is_ready(health), timeout_s=120, message="the service is not ready")
    finally:
        process.terminate()
        assert process.wait(60) == 0


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
