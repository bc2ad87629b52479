"""A worker on the bus that offers what the MCP conformance suite calls.

python -m tests.conformance.worker        (settings as every service)
"""

from __future__ import annotations

import sys

from searchbus_bus import Worker
from searchbus_runtime import Process, ServiceSettings, load_settings, run

from .asking import AskingTools
from .descriptors import HEADER_TOOL, JSON_SCHEMA_TOOL
from .prompts import Prompts
from .replies import reply_simple_text
from .resources import Resources
from .tasks import TaskTools
from .tools import Tools


async def start(process: Process[ServiceSettings]) -> None:
    worker = Worker("conformance")
    tools = Tools(worker)
    worker.add(tools, AskingTools(), TaskTools(), Prompts(), Resources())
    for descriptor in (JSON_SCHEMA_TOOL, HEADER_TOOL):
        worker.add_tool(descriptor, reply_simple_text)
    tools.serving = await process.serve(worker)


if __name__ == "__main__":
    sys.exit(run("conformance", load_settings(ServiceSettings), start))
