"""Models that the edge imports and hardly uses."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from searchbus_edge import SERVICE
from searchbus_runtime import process
from searchbus_runtime.services import run_service

def run(*_):
    import mcp_types
    print(mcp_types.CreateMessageRequest.__pydantic_complete__)
    print(mcp_types.Tool(name="t", input_schema={}).name)

process.run = run
run_service(SERVICE)
"""


def test_validators_of_the_protocol_are_built_at_their_first_use():
    """All of them take an eighth of the CPU time of the edge's start."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.split() == ["False", "t"]
