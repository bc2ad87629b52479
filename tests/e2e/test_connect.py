"""`searchbus connect` beside a running stack: the entries that it writes work."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from searchbus_testing import SEARCHBUS

pytestmark = pytest.mark.slow


def test_entries_that_connect_wrote_reach_the_stack(stack, tmp_path):
    """By the command, and by the address with one toolset; in an empty home."""

    def connect(*arguments: str) -> str:
        done = subprocess.run(
            [SEARCHBUS, "connect", *arguments, "--yes", "--data", str(stack.data)],
            env={"HOME": str(tmp_path), "PATH": os.defpath}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def servers(path: str, key: str) -> Any:
        return json.loads((tmp_path / path).read_text())[key]

    said = connect("cursor")
    assert "Cursor reaches searchbus" in said
    assert list(servers(".cursor/mcp.json", "mcpServers")) == ["searchbus"]
    before = int(said.partition(" tools")[0].rpartition(" ")[2])
    said = connect("vscode", "--url", stack.url, "--toolset", "web")
    assert 0 < int(said.partition(" tools")[0].rpartition(" ")[2]) < before
    entry = servers(".config/Code/User/mcp.json", "servers")["searchbus"]
    assert entry["url"] == f"{stack.url}/mcp/web"
    assert "has the entry already" in connect("cursor")
