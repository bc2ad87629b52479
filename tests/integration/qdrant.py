"""A real Qdrant server on this machine, which a test may kill and stop."""

from __future__ import annotations

import lzma
import os
import shutil
import signal
import ssl
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from searchbus_testing import eventually, free_port

from .engine import ROOT

_PACKED = ROOT.parent / "shared" / "bin" / "qdrant.xz"


def qdrant_binary() -> Path | None:
    """The server's program: on the PATH, or unpacked into build/; None where there is none."""
    if found := shutil.which("qdrant"):
        return Path(found)
    unpacked = ROOT / "build" / "bin" / "qdrant"
    if not unpacked.exists() and _PACKED.exists():
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        half = unpacked.with_suffix(f".{os.getpid()}")
        with lzma.open(_PACKED) as packed, half.open("wb") as program:
            shutil.copyfileobj(packed, program)
        half.chmod(0o755)
        half.replace(unpacked)
    return unpacked if unpacked.exists() else None


@dataclass
class QdrantServer:
    """One server on ports of its own; its documents outlive `kill`.

    Args:
        options: settings in the form of its environment, without `QDRANT__`.
        command: in place of the program itself.
        variables: others of its environment.
    """

    folder: Path
    port: int = field(default_factory=free_port)
    grpc_port: int = field(default_factory=free_port)
    options: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Its address."""
        scheme = "https" if self.options.get("SERVICE__ENABLE_TLS") == "true" else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> None:
        """Start it, also anew."""
        binary = qdrant_binary()
        assert binary is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "SERVICE__HOST": "127.0.0.1",
            "SERVICE__HTTP_PORT": str(self.port),
            "SERVICE__GRPC_PORT": str(self.grpc_port),
            "STORAGE__STORAGE_PATH": str(self.folder / "storage"),
            "STORAGE__SNAPSHOTS_PATH": str(self.folder / "snapshots"),
            "TELEMETRY_DISABLED": "true",
            **self.options,
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*(self.command or [binary]), *self.arguments],
                cwd=self.folder, stdout=log, stderr=log,
                env={**os.environ, **self.variables, **{f"QDRANT__{name}": value for name, value in settings.items()}},
            )  # fmt: skip
        if wait:
            eventually(self._is_ready, timeout_s=120)

    def kill(self) -> None:
        """As `kill -9`."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """End what `freeze` began."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False


def cluster(folder: Path, count: int = 3) -> list[QdrantServer]:
    """Running nodes of one cluster."""
    nodes: list[QdrantServer] = []
    ports = [free_port() for _ in range(count)]
    first = f"http://127.0.0.1:{ports[0]}"
    for number, port in enumerate(ports):
        own = ("--uri", f"http://127.0.0.1:{port}")
        node = QdrantServer(
            folder / f"node{number}",
            options={"CLUSTER__ENABLED": "true", "CLUSTER__P2P__PORT": str(port)},
            arguments=own if number == 0 else (*own, "--bootstrap", first),
        )
        node.start()
        nodes.append(node)
    eventually(lambda: all(knows(node, count) for node in nodes), timeout_s=120)
    return nodes


def knows(node: QdrantServer, count: int, trusted: ssl.SSLContext | bool = True) -> bool:
    """Whether a node is in a cluster of that many."""
    return len(peers_of(node, trusted)) == count


def peers_of(node: QdrantServer, trusted: ssl.SSLContext | bool = True) -> list[str]:
    """The addresses of the cluster's nodes as this one knows them; none while it does not answer."""
    try:
        answer = httpx.get(f"{node.url}/cluster", timeout=10, verify=trusted)
    except httpx.TransportError:
        return []
    return [each["uri"] for each in answer.json()["result"]["peers"].values()]
