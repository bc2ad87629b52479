"""From `searchbus init` to a client that finds a person's documents."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from searchbus_testing import SEARCHBUS

pytestmark = pytest.mark.slow


def test_entry_that_init_wrote_serves_the_documents_that_it_read(tmp_path):
    """The client starts the command of its file, with an environment of its own."""
    home, data, documents = (tmp_path / name for name in ("home", "data", "documents"))
    home.mkdir()
    documents.mkdir()
    (documents / "whales.md").write_text("# Whales\n\nWhales sing to each other.\n")
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [SEARCHBUS, "init", "--yes", "--client", "cursor", "--documents", documents, "--data", data],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 stored" in done.stdout
    assert not (data / "state.json").exists()
    servers = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]
    found = _search(servers["searchbus"], environment)
    assert "Whales" in json.dumps(found)


def _search(entry: dict[str, Any], environment: dict[str, str]) -> Any:
    """The result of the tool `search`, asked by the command of an entry."""
    messages = [
        ("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }),
        ("notifications/initialized", {}),
        ("tools/call", {"name": "search", "arguments": {"query": "songs of whales"}}),
    ]  # fmt: skip
    command = [entry["command"], *entry["args"]]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
        cwd=Path("/"),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for number, (method, params) in enumerate(messages):
            message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
            if not method.startswith("notifications/"):
                message["id"] = number
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
        for line in process.stdout:
            reply = json.loads(line)
            if reply.get("id") == 2:
                process.stdin.close()
                return reply["result"]
    raise AssertionError("it ended without an answer")
