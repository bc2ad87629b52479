"""The start of the process: the port is bound first, then written to the port file."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from msgspec import Struct

from searchbus_bus import Call, Toolset, Worker, tool
from searchbus_contracts import ToolAnnotations
from searchbus_edge.service import start
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Process
from searchbus_testing import until


class Nothing(Struct):
    pass


class Long(Toolset, name="long"):
    """Tools that take longer than an edge waits that stops; the first may be repeated."""

    def __init__(self) -> None:
        self.running = self.cancelled = 0

    @tool(title="Dig", annotations=ToolAnnotations(read_only_hint=True))
    async def dig(self, call: Call, arguments: Nothing) -> str:
        """Digs."""
        await call.progress(1, 2, "begun")
        return await self._wait()

    @tool(title="Build")
    async def build(self, call: Call, arguments: Nothing) -> str:
        """Builds."""
        return await self._wait()

    async def _wait(self) -> str:
        self.running += 1
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return ""


class UntilTold(Process[EdgeSettings]):
    """A process whose limit of the drain is reached when the test says so."""

    def at_limit(self, callback):
        self.end = callback

    async def run_server(self, app, **options):
        # Its server cuts later, so that the answers are sent.
        assert options["timeout_graceful_shutdown"] > self.settings.drain_timeout_s + 1
        return await super().run_server(app, **options)


async def test_calls_that_outlast_a_stop_are_answered_in_their_forms(bus, broker, tmp_path):
    """JSON, a stream that has begun, a batch, plain HTTP: each answer says whether the call may be
    repeated, and the work is cancelled."""
    long, worker = Long(), Worker("long")
    worker.add(long)
    await broker.connect(name="long").serve(worker)
    port_file = tmp_path / "port"
    settings = EdgeSettings(
        _env_file=None, port=0, port_file=port_file, data_dir=tmp_path, drain_timeout_s=600.0,
        call_timeout_cap_s=600.0,
    )  # fmt: skip
    process = UntilTold("edge", settings, bus)
    await start(process)
    url = f"http://127.0.0.1:{int(port_file.read_text())}"

    def message(name, **meta):
        params = {"name": name, "arguments": {}, "_meta": meta}
        return {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}

    both = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    json_only, events_only = ({"Accept": f} for f in ("application/json", "text/event-stream"))
    async with httpx.AsyncClient(base_url=url, timeout=600) as http:
        asked = [
            asyncio.create_task(http.post(path, json=body, headers=headers))
            for path, body, headers in (
                ("/mcp", message("build"), both),
                ("/mcp", message("dig", progressToken=7), both),
                ("/mcp", [message("dig"), message("build")], json_only),
                ("/api/v1/tools/build", {}, json_only),
                ("/api/v1/tools/dig", {}, events_only),
            )
        ]
        await until(lambda: long.running == 6)
        draining = asyncio.create_task(process.drain())
        await until(lambda: process.health.draining)
        process.end()
        plain, stream, batch, api, events = await asyncio.gather(*asked)

        await draining

    def failure(answer):
        assert answer["result"]["isError"], answer
        return answer["result"]["structuredContent"]["error"]

    def last_of(response):
        assert response.headers["content-type"].startswith("text/event-stream")
        return json.loads(response.text.rpartition("data: ")[2])

    read, written = failure(last_of(stream)), failure(plain.json())
    assert last_of(stream)["id"] == "dig"
    assert "notifications/progress" in stream.text
    texts = [each["result"]["content"][0]["text"] for each in batch.json()]
    assert texts == [f"unavailable: {one['message']}" for one in (read, written)]
    assert (read["code"], read["retryable"]) == ("unavailable", True)
    assert (written["code"], written["retryable"]) == ("unavailable", False)
    assert "It may have done the work" in written["message"]
    assert (api.status_code, api.json()["detail"]) == (503, written["message"])
    assert last_of(events)["code"] == "unavailable"
    await until(lambda: long.cancelled == 6)


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
