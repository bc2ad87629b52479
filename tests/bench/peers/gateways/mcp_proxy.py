"""mcp-proxy, a gateway of tower's middleware in Rust; without the features that are not used here."""

from __future__ import annotations

from searchbus_testing import free_port

from ..programs import crate
from ..system import Peer, Running, Starter

VERSION = "0.6.0"
_CONFIG = """
[proxy]
name = "bench"
separator = "_"
[proxy.listen]
host = "127.0.0.1"
port = {port}
[[backends]]
name = "up"
transport = "http"
url = "http://127.0.0.1:{upstream}/mcp"
[observability]
log_level = "error"
"""


async def start(start: Starter, upstream: int) -> Running:
    """Start it."""
    program = crate("mcp-proxy", VERSION, "--no-default-features")
    port = free_port()
    (start.folder / "proxy.toml").write_text(_CONFIG.format(port=port, upstream=upstream))
    process = await start(program, "--config", "proxy.toml", port=port)
    return Running(port, (process.pid,), path="/", prefix="up_", sessions=True)


PEER = Peer("mcp-proxy (Rust)", VERSION, start, gateway=True)
