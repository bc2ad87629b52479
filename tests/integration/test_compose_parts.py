"""Parts of Compose as processes: keys and TLS of both servers, the reload of the bus, the balancer before real edges."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from searchbus_bus import connect
from searchbus_cli.nats_config import nats_config
from searchbus_cli.servers import nats_server_binary
from searchbus_contracts import Fault
from searchbus_runtime import ServiceSettings, load_settings
from searchbus_runtime.connection import bus_options
from searchbus_testing import free_port, until

from ..chaos.client import Client, counts
from ..chaos.fleet import READY_S, Fleet
from .engine import ROOT
from .qdrant import QdrantServer, qdrant_binary

BALANCER = ROOT / "deploy" / "compose" / "haproxy.cfg"
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
RATE_PER_S = 40.0


def make_keys(out: Path, *options: str, **variables: str) -> None:
    """The command of the container `keys`, for a folder of this machine, whose files keep their owner."""
    shell, flags, text, name = COMPOSE["keys"]["entrypoint"]
    text = f"chown() {{ :; }}; {text}".replace("/keys", str(out)).replace("$$", "$")
    text = text.replace("${NATS_CLIENT_CERTIFICATES:+--tls-verify}", variables.pop("verify", ""))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [shell, flags, text, name, *options], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": path, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
async def test_keys_of_compose_give_both_servers_tls(own_nats_server, tmp_path):
    """With the files and variables of their containers; certificates of clients where they are asked for, and the
    authority is the same after a second start."""
    out = tmp_path / "keys"
    await asyncio.to_thread(make_keys, out)
    authority = (out / "tls" / "ca.crt").read_bytes()
    await asyncio.to_thread(make_keys, out, verify="--tls-verify")
    assert (out / "web" / "ca.crt").read_bytes() == authority
    _, config, *_ = COMPOSE["nats"]["command"]
    server = own_nats_server("-c", config.replace("/keys", str(out)), "-sd", str(tmp_path / "js"))
    settings = COMPOSE["web"]["environment"]
    files = {
        variable.removeprefix("SEARCHBUS_").lower(): path.replace(
            "/run/secrets/searchbus", str(out / "web")
        )
        for variable, path in settings.items()
        if variable.endswith("_FILE")
    }
    assert set(files) == {"nats_ca_file", "nats_cert_file", "nats_key_file"}
    url = f"{settings['SEARCHBUS_NATS_URL'].partition(':')[0]}://localhost:{server.port}"
    assert await admitted(out, "web", url, **files)
    assert not await admitted(out, "web", url, nats_ca_file=files["nats_ca_file"])

    if qdrant_binary() is None:
        pytest.skip("there is no qdrant program, neither on the PATH nor beside the checkout")
    options = {
        name.removeprefix("QDRANT__"): value.replace("/keys", str(out))
        for name, value in COMPOSE["qdrant"]["environment"].items()
    }
    store = QdrantServer(tmp_path / "qdrant", options=options)
    trusted = ssl.create_default_context(cafile=out / "retrieval" / "ca.crt")
    try:
        await asyncio.to_thread(store.start, wait=False)
        async with httpx.AsyncClient(verify=trusted) as client:

            async def answers() -> bool:
                try:
                    return (await client.get(f"https://localhost:{store.port}/readyz")).is_success
                except httpx.TransportError:
                    return False

            await until(answers, timeout_s=READY_S)
        async with httpx.AsyncClient() as stranger:
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await stranger.get(f"https://localhost:{store.port}/readyz")
    finally:
        store.kill()


async def admitted(out: Path, name: str, url: str, **settings: str) -> bool:
    """Whether the server accepts a user's key."""
    seed = out / name / "SEARCHBUS_NATS_NKEY_SEED"
    found = load_settings(
        ServiceSettings, nats_url=url, nats_nkey_seed=seed.read_text(), **settings
    )
    try:
        bus = await connect(url, name=name, connect_timeout_s=2.0, **bus_options(found))
    except Fault:
        return False
    await bus.close()
    return True


async def test_reload_of_compose_admits_a_new_worker_and_keeps_connections(
    own_nats_server, tmp_path
):
    """The command of the service `reload`, with the server's process in place of the container's first."""
    out = tmp_path / "keys"
    nats_config(out)
    server = own_nats_server("-c", str(out / "nats" / "nats.conf"), "-sd", str(tmp_path / "js"))
    seed = (out / "web" / "SEARCHBUS_NATS_NKEY_SEED").read_text()
    settings = load_settings(ServiceSettings, nats_url=server.url, nats_nkey_seed=seed)
    there = await connect(server.url, name="web", **bus_options(settings))
    nats_config(out, worker="parrot", toolset=["parrot"])
    assert not await admitted(out, "parrot", server.url)

    assert COMPOSE["reload"]["pid"] == "service:nats"
    assert COMPOSE["reload"]["user"] == COMPOSE["nats"]["user"]
    program, *arguments = COMPOSE["reload"]["entrypoint"]
    assert (program, arguments) == ("nats-server", ["--signal", "reload=1"])
    assert server.process is not None
    said = ["--signal", f"reload={server.process.pid}"]
    await asyncio.to_thread(subprocess.run, [nats_server_binary(), *said], check=True, timeout=60)

    async def known() -> bool:
        return await admitted(out, "parrot", server.url)

    await until(known, timeout_s=READY_S)
    assert there.transport.connected
    await there.transport.flush()
    await there.close()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
async def test_edges_behind_the_balancer_are_replaced_without_a_lost_request(tmp_path):
    """As deploy/compose/upgrade does it: two new ones join, the two old ones finish and go."""
    ports = [(free_port(), free_port()) for _ in range(4)]
    lines = [f"    server edge{n} 127.0.0.1:{http} check port {health}"
             for n, (http, health) in enumerate(ports)]  # fmt: skip
    entrance = free_port()
    text = BALANCER.read_text()
    for found, here in (
        (r"^    bind \*:8080$", f"    bind 127.0.0.1:{entrance}"),
        (r"^    server-template .*$", "\n".join(lines)),
    ):
        text, count = re.subn(found, here, text, flags=re.M)
        assert count == 1
    config = tmp_path / "haproxy.cfg"
    config.write_text(text)
    async with Fleet(tmp_path / "fleet") as fleet:

        async def start(numbers: range) -> list[subprocess.Popen[bytes]]:
            started = []
            for number in numbers:
                http, health = ports[number]
                path = fleet.folder / f"edge-{number}.port"
                started.append(
                    fleet.start("searchbus_edge", port=http, health_port=health, port_file=path)
                )
                await until(path.exists, timeout_s=READY_S, message=lambda: fleet.log[-4000:])
            return started

        old = await start(range(2))
        fleet.start("tests.chaos.worker")
        fleet.ports = [http for http, _ in ports[:2]]
        await fleet.ready(workers=1)
        log = (tmp_path / "haproxy.log").open("wb")
        balancer = subprocess.Popen(["haproxy", "-f", config], stdout=log, stderr=log)
        try:
            fleet.ports = [entrance]
            await fleet.ready()
            async with Client([entrance], short=True) as client:
                stop = asyncio.Event()

                async def keep_calling() -> list:
                    outcomes = []
                    while not stop.is_set():
                        outcomes += await client.load(rate_per_s=RATE_PER_S, seconds=1, wait_ms=20)
                    return outcomes

                calling = asyncio.create_task(keep_calling())
                new = await start(range(2, 4))
                fleet.ports = [http for http, _ in ports[2:]]
                await fleet.ready()
                await asyncio.sleep(2)
                for edge in old:
                    edge.send_signal(signal.SIGTERM)
                    assert await asyncio.to_thread(edge.wait, READY_S) == 0
                await asyncio.sleep(1)
                stop.set()
                outcomes = await calling
                assert all(edge.poll() is None for edge in new)
        finally:
            balancer.terminate()
            await asyncio.to_thread(balancer.wait, READY_S)
            log.close()
    assert len(outcomes) >= RATE_PER_S
    assert counts(outcomes)["failed"] == 0, [o for o in outcomes if o.kind != "answer"][:5]
