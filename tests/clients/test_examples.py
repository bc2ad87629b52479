"""The examples: the programs run against a stack, the files are what their clients read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from searchbus_testing import SEARCHBUS, Stack

from .test_clients import python_of

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENTS = {"langchain_tools.py": "langchain"}
"""Those whose packages are not the project's own."""
FILES = sorted(EXAMPLES.glob("*.json"))


@pytest.fixture(scope="module")
def search_stack(start_stack, tmp_path_factory) -> Stack:
    """A stack with an internet on loopback."""
    return start_stack(tmp_path_factory.mktemp("examples"), "--fake-upstreams")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.name, marks=[pytest.mark.slow] if path.name in ENVIRONMENTS else [])
        for path in sorted(EXAMPLES.glob("*.py"))
    ],
)
def test_program_lists_the_tools_and_searches(search_stack, name):
    """As it is in the folder."""
    client = ENVIRONMENTS.get(name)
    done = subprocess.run(
        [python_of(client) if client else sys.executable, EXAMPLES / name],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "SEARCHBUS_URL": f"{search_stack.url}/mcp"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("tools: ")
    assert "search_fomc" in first
    assert "http" in "".join(rest)


def servers(value: object) -> list[dict]:
    """Every entry of a server in a file."""
    if isinstance(value, list):
        return [found for inner in value for found in servers(inner)]
    if not isinstance(value, dict):
        return []
    if {"url", "server_url", "command"} & value.keys():
        return [value]
    return [found for inner in value.values() for found in servers(inner)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_names_an_endpoint_or_a_command_that_there_is(search_stack, path):
    """The path of the address at a running edge; the command with its arguments."""
    (server,) = servers(json.loads(path.read_text()))
    if "command" in server:
        done = subprocess.run(
            [SEARCHBUS, *server["args"], "--help"], capture_output=True, text=True, timeout=300
        )
        assert (Path(server["command"]).name, done.returncode) == ("searchbus", 0)
        return
    address = httpx.URL(server.get("url") or server["server_url"])
    assert address.path in httpx.get(search_stack.url, timeout=60).json()["endpoints"]


def test_table_names_every_file():
    """And no other."""
    text = (EXAMPLES / "README.md").read_text()
    named = set(re.findall(r"\]\(([^)]+)\)", text))
    assert named == {path.name for path in EXAMPLES.iterdir() if path.suffix in (".json", ".py")}
