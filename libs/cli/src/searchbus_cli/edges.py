"""The edges of a stack: they listen on one port, and the stack is ready when they are."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from .children import Child
from .errors import StackError
from .processes import Processes

# For slow and busy machines: a process that cannot start ends the stack long before.
READY_TIMEOUT_S = 600.0
_PROBE_TIMEOUT_S = 2.0


def check_port(host: str, port: int) -> None:
    """Refuse an address that cannot be bound, before anything is started.

    Args:
        port: 0 is a free one.

    Raises:
        StackError: with what to do.
    """
    if not port:
        return
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StackError(
                f"{host}:{port} cannot be used ({error.strerror}). Choose another --port, where 0 "
                "takes a free one, or stop the program that uses it."
            ) from None


class Edges:
    """The edges of one stack.

    Args:
        labels: their names, e.g. edge and edge-2.
        folder: where they write the port that they listen on.
        host, port: where they listen; with port 0 the first one chooses.
        make_child: makes the process of a label with an environment.
        logs: named in errors.
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
        logs: Path,
    ) -> None:
        self._labels = tuple(labels)
        self._children: dict[str, Child] = {}
        self._processes = processes
        self._make_child = make_child
        self._folder = folder
        self._host = host
        self._logs = logs
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
        await self._wait(lambda: asyncio.to_thread(_is_ready, self._host, int(port)), first)
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"

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

        async def listens() -> bool:
            return path.exists()

        await self._wait(listens, label)
        return path.read_text().strip()

    def _port_file(self, label: str) -> Path:
        return self._folder / f"{label}.port"

    async def _wait(self, done: Callable[[], Awaitable[bool]], label: str) -> None:
        late = f"{label} is not ready after {READY_TIMEOUT_S:.0f} s. See {self._logs}."
        await self._processes.wait_until(done, timeout_s=READY_TIMEOUT_S, otherwise=late)


def _is_ready(host: str, port: int) -> bool:
    """Whether an edge is ready and no service of the stack is away."""
    # The standard library's client: the import of a larger one takes as long as all else here.
    connection = http.client.HTTPConnection(host, port, timeout=_PROBE_TIMEOUT_S)
    try:
        # By whatever name it listens on.
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        response = connection.getresponse()
        details = json.loads(response.read()).get("details", {})
        return response.status == 200 and not details.get("away")
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
