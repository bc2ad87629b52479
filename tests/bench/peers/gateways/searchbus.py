"""searchbus: its own tool in a worker, and a server that is attached.

Edge, broker and worker are processes of their own; the caller signs in with a key, limits count its calls (they are set
beyond what a bench reaches), each call is traced and audited.
"""

from __future__ import annotations

import json
from importlib.metadata import version

import httpx

from searchbus_testing import until

from ...edge import Parts, running_parts
from ...stack import START_TIMEOUT_S, service
from ..system import Peer, Running, Starter

_LIMITS = {"call_rate_per_s": 1_000_000, "call_burst": 1_000_000, "abuse_burst": 1_000_000}


async def _parts(start: Starter) -> Parts:
    return await start.stack.enter_async_context(
        running_parts(start.folder / "searchbus", **_LIMITS)
    )


def _headers(parts: Parts) -> dict[str, str]:
    return {"Authorization": f"Bearer {parts.key}"}


async def _native(start: Starter, _: int) -> Running:
    parts = await _parts(start)
    pids = (*parts.edge_pids, parts.worker_pid, parts.nats_pid)
    return Running(parts.edge_port, pids, headers=_headers(parts))


async def _attached(start: Starter, upstream: int) -> Running:
    parts = await _parts(start)
    file = start.folder / "mcp.json"
    servers = {"up": {"url": f"http://127.0.0.1:{upstream}/mcp"}}
    file.write_text(json.dumps({"mcpServers": servers}))
    attach = await start.stack.enter_async_context(
        service("attach", parts.nats_url, attach_file=str(file), data_dir=str(file.parent))
    )
    pids = (*parts.edge_pids, attach.pid, parts.nats_pid)
    running = Running(parts.edge_port, pids, path="/mcp/up", headers=_headers(parts))
    headers, body = running.message("tools/call", "echo")

    async def answers() -> bool:
        async with httpx.AsyncClient(timeout=60) as client:
            response = await client.post(running.url, json=body, headers=headers)
        return response.status_code == 200 and '"error"' not in response.text

    await until(answers, timeout_s=START_TIMEOUT_S, interval_s=0.1)
    return running


PEERS = [
    Peer("searchbus, its own tool", version("searchbus-edge"), _native, own=True),
    Peer("searchbus, attached", version("searchbus-edge"), _attached, gateway=True, own=True),
]
