"""Fixtures that every test may use: a real nats-server on a free port, the reference data."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NATS_SERVER = Path(sys.executable).with_name("nats-server")
REFERENCE = Path(__file__).resolve().parent.parent / "shared"


def pytest_collection_finish() -> None:
    """Keep what is loaded by now out of every later collection, as the services do.

    With the modules of a thousand tests a full collection stops the loop for a tenth of a second.
    """
    gc.collect()
    gc.freeze()


@dataclass
class NatsServer:
    """A nats-server process on loopback that can be killed and started again on its port."""

    folder: Path
    port: int = -1
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        log = self.folder / "nats.log"
        log.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [NATS_SERVER, "-a", "127.0.0.1", "-p", str(self.port), "-l", log, *self.arguments]
        )
        deadline_s = time.monotonic() + 10
        while time.monotonic() < deadline_s:
            text = log.read_text() if log.exists() else ""
            if "Server is ready" in text:
                if self.port == -1:
                    self.port = int(
                        re.search(r"client connections on 127\.0\.0\.1:(\d+)", text)[1]  # type: ignore[index]
                    )
                return
            time.sleep(0.02)
        raise RuntimeError(f"nats-server did not start:\n{text}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One server for the whole session; tests keep apart by their subject prefix."""
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_nats_server(tmp_path: Path) -> Iterator[Callable[..., NatsServer]]:
    """Start servers of one's own, to be killed or configured."""
    servers: list[NatsServer] = []

    def start(*arguments: str) -> NatsServer:
        folder = tmp_path / f"nats{len(servers)}"
        folder.mkdir()
        server = NatsServer(folder, arguments=arguments)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of reference data beside the checkout; skips where it is absent."""
    if not REFERENCE.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"reference data is missing at {REFERENCE}")
        pytest.skip(f"no reference data at {REFERENCE}")
    return REFERENCE
