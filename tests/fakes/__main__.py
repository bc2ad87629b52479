"""`python -m tests.fakes FILE`: plays the internet until SIGTERM; writes the settings that use it.

FILE gets JSON: {"environment": {"SEARCHBUS_…": "…"}} for the services of a stack.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from .ddg import FakeDuckDuckGo
from .serving import serve
from .web import FakeWeb


async def main(path: Path) -> None:
    """Serve every fake."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    ddg = FakeDuckDuckGo(quick_requests=5, window_s=5.0, block_s=20.0, latency_s=0.1)
    async with serve(ddg.app) as ddg_url, serve(FakeWeb().app) as web_url:
        place = web_url.removeprefix("http://")
        environment = {
            "SEARCHBUS_DDG_HTML_URL": f"{ddg_url}/html/",
            "SEARCHBUS_DDG_LITE_URL": f"{ddg_url}/lite/",
            "SEARCHBUS_DDG_INSTANT_URL": f"{ddg_url}/instant",
            "SEARCHBUS_TAVILY_URL": f"{web_url}/tavily",
            "SEARCHBUS_BRAVE_URL": f"{web_url}/brave",
            "SEARCHBUS_WEB_ROUTES": json.dumps(
                {f"*.example.{tld}": place for tld in ("org", "net")}
            ),
            # Loopback has many addresses: each worker gets its own, as from several proxies.
            "SEARCHBUS_DDG_EGRESS": json.dumps([f"bind:127.0.0.{n}" for n in range(11, 27)]),
        }
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps({"environment": environment, "ddg": ddg_url, "web": web_url}))
        draft.replace(path)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
