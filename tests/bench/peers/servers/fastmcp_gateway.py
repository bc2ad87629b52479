"""fastmcp's proxy of the servers in an `mcpServers` file: `fastmcp_gateway.py PORT FILE SESSIONS REPORT`.

SESSIONS is `request` (each request begins a session with all servers, which is the default), or `client` (each client
has one). On SIGUSR1 it writes the number of its tasks by coroutine to REPORT, as tests/chaos/watched.py does.
"""

import asyncio
import json
import signal
import sys
from collections import Counter
from pathlib import Path

import uvicorn
from fastmcp.server import create_proxy
from fastmcp.server.providers.proxy import FastMCPProxy, StatefulProxyClient

port, sessions, path = int(sys.argv[1]), sys.argv[3], Path(sys.argv[4])
servers = json.loads(Path(sys.argv[2]).read_text())
if sessions == "client":
    proxy = FastMCPProxy(client_factory=StatefulProxyClient(servers).new_stateful)
else:
    proxy = create_proxy(servers)


def report(*_: object) -> None:
    """Write the tasks in one step."""
    tasks = Counter(task.get_coro().__qualname__ for task in asyncio.all_tasks())
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"tasks": tasks}))
    part.rename(path)


signal.signal(signal.SIGUSR1, report)
app = proxy.http_app(json_response=True, stateless_http=sessions == "request")
uvicorn.run(app, port=port, log_level="warning")
