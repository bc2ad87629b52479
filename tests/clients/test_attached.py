"""Real clients call an attached server, by its own endpoint and by the one that finds tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from searchbus_testing import Stack, eventually

from ..conformance.npm import inspector
from .test_clients import CLIENTS, run

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).parents[1] / "e2e" / "attached_server.py"
OSLO = {"city": "Oslo"}
LAZY = {"name": "weather__forecast", "arguments": OSLO}


@pytest.fixture(scope="module")
def attached(start_stack, tmp_path_factory) -> Stack:
    """A stack with one server."""
    folder = tmp_path_factory.mktemp("attached")
    command = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(PROGRAM))}]\n"
    (folder / "attach.toml").write_text(f"[servers.weather]\n{command}")
    stack = start_stack(folder)

    def up() -> bool:
        done = stack.command("attach", "list", "--json")
        return done.returncode == 0 and [s["state"] for s in json.loads(done.stdout)] == ["up"]

    eventually(up, timeout_s=600, message=lambda: stack.log[-3000:])
    found = stack.command("tools", "list")
    eventually(lambda: "weather__forecast" in stack.command("tools", "list").stdout,
               timeout_s=600, message=lambda: found.stdout)  # fmt: skip
    return stack


@pytest.mark.parametrize("client", CLIENTS)
def test_client_calls_an_attached_server(attached, client):
    """A bad argument is a result; the calls before and after it are answered."""
    server = {"url": f"{attached.url}/mcp/weather"}
    found = run(client, server, "forecast", {"city": 3}, OSLO)
    assert set(found["tools"]) == {"forecast", "process_id"}
    first, bad, after = found["calls"]
    assert json.loads(first["text"]) == {"city": "Oslo", "sky": "blue"}
    assert bad["error"]
    assert "invalid_argument" in bad["text"]
    assert after == first


@pytest.mark.parametrize("client", CLIENTS)
def test_client_calls_it_where_tools_are_found_first(attached, client):
    """By its name on /mcp."""
    server = {"url": f"{attached.url}/mcp/lazy"}
    found = run(client, server, "call_tool", {**LAZY, "arguments": {"city": 3}}, LAZY)
    assert "find_tools" in found["tools"]
    first, bad, after = found["calls"]
    assert "blue" in first["text"]
    assert bad["error"]
    assert after == first


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("weather", ("--tool-name", "forecast", "--tool-arg", "city=Oslo")),
        ("lazy", ("--tool-name", "call_tool", "--tool-arg", "name=weather__forecast",
                  "--tool-arg", f"arguments={json.dumps(OSLO)}")),
    ],
)  # fmt: skip
def test_inspector_calls_an_attached_server(node, attached, path, arguments):
    """From its command line."""
    done = inspector(node, f"{attached.url}/mcp/{path}", "--method", "tools/call", *arguments)
    assert done.returncode == 0, done.stderr
    assert "blue" in done.stdout
