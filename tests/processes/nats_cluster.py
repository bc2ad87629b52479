"""Three NATS servers on loopback that form a cluster with JetStream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from searchbus_testing import NatsServer, free_port


@contextmanager
def nats_cluster(folder: Path, size: int = 3) -> Iterator[list[NatsServer]]:
    """The running servers, named n0 to n2; they end with the block."""
    servers: list[NatsServer] = []
    routes = [free_port() for _ in range(size)]
    try:
        for number in range(size):
            own = folder / f"n{number}"
            own.mkdir(parents=True)
            config = own / "server.conf"
            peers = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
            config.write_text(
                f'server_name: n{number}\nping_interval: "3s"\nping_max: 1\n'
                f'jetstream {{ max_memory_store: 128MB, store_dir: "{own}/js" }}\n'
                f'cluster {{ name: test, listen: "127.0.0.1:{routes[number]}", routes: [{peers}] }}\n'
            )
            server = NatsServer(own, port=free_port(), arguments=("-c", str(config)))
            server.start()
            servers.append(server)
        yield servers
    finally:
        for server in servers:
            server.stop()
