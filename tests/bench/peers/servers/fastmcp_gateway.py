"""fastmcp's proxy of the servers in an `mcpServers` file: `fastmcp_gateway.py PORT FILE`."""

import json
import sys
from pathlib import Path

import uvicorn
from fastmcp.server import create_proxy

proxy = create_proxy(json.loads(Path(sys.argv[2]).read_text()))
app = proxy.http_app(json_response=True, stateless_http=True)
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
