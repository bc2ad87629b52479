"""Serves the fake upstreams until SIGTERM.

`python -m searchbus_fakes --settings FILE`: on free ports of loopback. It writes the settings of services
that use the fakes to FILE: {"environment": {"SEARCHBUS_…": "…"}, "ddg": URL, "web": URL}.
`python -m searchbus_fakes --listen 0.0.0.0 --ports 8001,8002`: in a container of its own; the settings
are in deploy/compose/fakes.env.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from searchbus_runtime.files import write_atomically
from searchbus_runtime.server import HttpServer

from .ddg import FakeDuckDuckGo
from .engines import ENGINE_PATHS
from .web import FakeWeb

OPTIONS: dict[str, Any] = {
    "log_level": "critical",
    "timeout_graceful_shutdown": 1,
    "lifespan": "off",
}


async def main(host: str, ports: tuple[int, int], settings: Path | None) -> None:
    """Serve every fake."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    ddg = FakeDuckDuckGo(quick_requests=5, window_s=5.0, block_s=20.0, latency_s=0.1)
    async with (
        HttpServer.serving(ddg.app, host=host, port=ports[0], **OPTIONS) as ddg_server,
        HttpServer.serving(FakeWeb().app, host=host, port=ports[1], **OPTIONS) as web_server,
    ):
        if settings is not None:
            write_settings(settings, ddg_server.url, web_server.url)
        await stop.wait()


def write_settings(path: Path, ddg_url: str, web_url: str) -> None:
    """Write the settings of services that use the fakes."""
    address = web_url.removeprefix("http://")
    environment = {
        "SEARCHBUS_DDG_HTML_URL": f"{ddg_url}/html/",
        "SEARCHBUS_DDG_LITE_URL": f"{ddg_url}/lite/",
        "SEARCHBUS_DDG_INSTANT_URL": f"{ddg_url}/instant",
        "SEARCHBUS_DDG_ENGINE_URLS": json.dumps(
            {name: f"{web_url}/engines/{path}" for name, path in ENGINE_PATHS.items()}
        ),
        "SEARCHBUS_WEB_ENGINES": json.dumps(["ddg", *sorted(ENGINE_PATHS)]),
        "SEARCHBUS_TAVILY_URL": f"{web_url}/tavily",
        "SEARCHBUS_BRAVE_URL": f"{web_url}/brave",
        "SEARCHBUS_WEB_ROUTES": json.dumps({f"*.example.{tld}": address for tld in ("org", "net")}),
        # Each worker gets a source address of its own, as with several proxies.
        "SEARCHBUS_DDG_EGRESS": json.dumps([f"bind:127.0.0.{n}" for n in range(11, 27)]),
    }
    written = {"environment": environment, "ddg": ddg_url, "web": web_url}
    write_atomically(path, json.dumps(written).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument(
        "--ports",
        default="0,0",
        help="of the fake DuckDuckGo and of the fake web; 0 takes a free port",
    )
    parser.add_argument("--settings", type=Path, help="file to write the settings to")
    given = parser.parse_args()
    first, second = (int(port) for port in given.ports.split(","))
    asyncio.run(main(given.listen, (first, second), given.settings))
