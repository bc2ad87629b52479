"""Two clusters of three NATS servers, joined by gateways through proxies: two regions with a link between them.

async with Regions(folder) as regions:
    regions.east[0].url, regions.west[0].url
    regions.cut(Fault.STALL)                # the link is a black hole
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from searchbus_testing import NatsServer, free_port, until

from .fleet import READY_S, monitor
from .proxy import Fault, Proxy

SIZE = 3
DELAY_S = 0.04
"""Of the link, each way."""


class Regions:
    """The region `east` has the key-value store: six servers of JetStream in two regions would need four for a leader,
    and neither side of a cut has them. `west` reaches its buckets over the link.

    Args:
        folder: for the servers' files.
    """

    def __init__(self, folder: Path) -> None:
        self.east: list[NatsServer] = []
        self.west: list[NatsServer] = []
        self._folder = folder
        self._monitors: list[int] = []
        self._stack = AsyncExitStack()
        self._proxies: list[Proxy] = []

    async def __aenter__(self) -> Regions:
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in (*self.east, *self.west):
            await asyncio.to_thread(server.stop)
        await self._stack.aclose()

    def cut(self, fault: Fault) -> None:
        """What happens on the link, in both directions; `Fault.NONE` heals it."""
        for proxy in self._proxies:
            proxy.fault = fault

    async def _start(self) -> None:
        # Each server announces the address of a proxy of its own as its gateway.
        gateways = {name: [free_port() for _ in range(SIZE)] for name in ("east", "west")}
        announced: dict[str, list[int]] = {}
        for name, ports in gateways.items():
            proxies = [
                await self._stack.enter_async_context(Proxy(p, delay_s=DELAY_S)) for p in ports
            ]
            self._proxies += proxies
            announced[name] = [proxy.port for proxy in proxies]
        for name, other in (("east", "west"), ("west", "east")):
            routes = [free_port() for _ in range(SIZE)]
            for number in range(SIZE):
                folder = self._folder / f"{name}-{number}"
                folder.mkdir(parents=True)
                config = folder / "server.conf"
                peers = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
                remote = ", ".join(f'"nats://127.0.0.1:{port}"' for port in announced[other])
                store = f'jetstream {{ max_memory_store: 256MB, store_dir: "{folder}/js" }}\n'
                config.write_text(
                    f'server_name: {name}-{number}\nping_interval: "3s"\nping_max: 1\n'
                    f"{store if name == 'east' else ''}"
                    f'cluster {{ name: {name}, listen: "127.0.0.1:{routes[number]}", '
                    f"routes: [{peers}] }}\n"
                    f'gateway {{ name: {name}, listen: "127.0.0.1:{gateways[name][number]}", '
                    f'advertise: "127.0.0.1:{announced[name][number]}", '
                    f"gateways: [{{name: {other}, urls: [{remote}]}}] }}\n"
                )
                monitoring = free_port()
                server = NatsServer(
                    folder, port=free_port(), arguments=("-c", str(config), "-m", str(monitoring))
                )
                await asyncio.to_thread(server.start)
                getattr(self, name).append(server)
                self._monitors.append(monitoring)
        await until(self._joined, timeout_s=READY_S)

    async def _joined(self) -> bool:
        """Whether each server is connected to the other region, and the store has a leader."""
        for port in self._monitors:
            found = await asyncio.to_thread(monitor, port, "gatewayz")
            if not found["outbound_gateways"]:
                return False
        found = await asyncio.to_thread(monitor, self._monitors[0], "jsz")
        store = found.get("meta_cluster", {})
        return bool(store.get("leader")) and store.get("cluster_size") == SIZE
