"""The start of the process: the port is bound first, then written to the port file."""

from __future__ import annotations

import httpx
import pytest

from searchbus_edge.service import start
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Process


async def test_start_binds_serves_and_reports_its_port(bus, tmp_path):
    """The composites are served, and the edge's own address has the bound port."""
    port_file = tmp_path / "port"
    settings = EdgeSettings(
        _env_file=None, port=0, port_file=port_file, data_dir=tmp_path, auth="jwt",
        issuer="https://idp.example", audiences=("x",),
    )  # fmt: skip
    process = Process("edge", settings, bus)
    await start(process)
    try:
        url = f"http://127.0.0.1:{int(port_file.read_text())}"
        async with httpx.AsyncClient(base_url=url) as http:
            challenge = (await http.get("/")).headers["www-authenticate"]
            address = challenge.partition('resource_metadata="')[2].rstrip('"')
            assert address.startswith(url)
            assert (await http.get(address)).json()["resource"] == f"{url}/mcp"
            path = "/.well-known/oauth-protected-resource/mcp/connector"
            assert (await http.get(path)).status_code == 200
    finally:
        await process.drain()


@pytest.mark.parametrize(
    ("trusted_proxies", "statuses"), [((), [200, 200, 429]), (("127.0.0.1",), [200, 200, 200])]
)
async def test_strangers_cannot_choose_the_address_that_they_are_counted_by(
    bus, tmp_path, trusted_proxies, statuses
):
    """A trusted proxy says who its clients are."""
    port_file = tmp_path / "port"
    settings = EdgeSettings(
        _env_file=None, port=0, port_file=port_file, data_dir=tmp_path, abuse_rate_per_s=0.001,
        abuse_burst=2, trusted_proxies=trusted_proxies,
    )  # fmt: skip
    process = Process("edge", settings, bus)
    await start(process)
    try:
        url = f"http://127.0.0.1:{int(port_file.read_text())}/mcp"
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with httpx.AsyncClient(
            headers={"Accept": "application/json, text/event-stream"}
        ) as http:
            found = [
                await http.post(url, json=ping, headers={"X-Forwarded-For": f"192.0.2.{number}"})
                for number in range(3)
            ]
        assert statuses == [response.status_code for response in found]
    finally:
        await process.drain()
