"""Clients that know an API by its OpenAPI document only."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from searchbus_testing import Stack

from .test_clients import FOLDER, TIMEOUT_S, python_of

pytestmark = pytest.mark.slow
PROGRAMS = FOLDER / "programs"
CHECKS = (
    "no_internal_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance",
)  # fmt: skip


@pytest.fixture(scope="module")
def search_stack(start_stack, tmp_path_factory) -> Stack:
    """A stack with an internet on loopback."""
    return start_stack(tmp_path_factory.mktemp("openapi"), "--fake-upstreams")


def run(*command: str | Path, **more: Any) -> str:
    """The output of a command of the environment, which ended well."""
    python = python_of("openapi")
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [python.parent / command[0], *command[1:]], timeout=TIMEOUT_S, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(PROGRAMS), **more.pop("env", {})},
        **more,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def used(search_stack, tmp_path_factory) -> dict[str, Any]:
    """What the generated client of the stack received."""
    folder = tmp_path_factory.mktemp("client") / "generated"
    printed = run(
        "openapi-python-client", "generate", "--url", f"{search_stack.url}/openapi.json",
        "--output-path", folder, "--meta", "none",
    )  # fmt: skip
    assert "WARNING" not in printed
    program = PROGRAMS / "openapi_client.py"
    found: dict[str, Any] = json.loads(
        run("python", program, search_stack.url, folder).splitlines()[-1]
    )
    return found


def test_generated_client_calls_tools(used):
    """Five of them: typed results, text, a name that two toolsets have."""
    web, search, ddg, instant, tools, _ = used["calls"]
    assert web[0] == "WebSearchResult"
    assert len(web[1]["results"]) == 3
    assert search[0] == "SearchResult"
    assert search[1]["results"][0]["url"].startswith("http")
    assert "site0.example.org" in ddg[1]
    assert 'Instant Answer for "rates"' in instant[1]
    assert tools[0] == "FindToolsResult"
    assert len(tools[1]["results"]) == 2


def test_generated_client_gets_problems(used):
    """As values of their own type."""
    kind, problem = used["calls"][-1]
    assert (kind, problem["status"], problem["code"]) == ("Problem", 400, "invalid_argument")
    assert problem["detail"].startswith("maxResults: ")


def test_generated_client_lists_tools(used):
    """With the paths that the document has."""
    paths = {tool["path"] for tool in used["tools"]}
    assert {"/api/v1/tools/web_search", "/api/v1/ddg/web_search"} <= paths


def test_every_answer_fits_the_document(search_stack, tmp_path):
    """Valid and invalid requests, made from the schemas: no internal error, no other answer."""
    run(
        "schemathesis", "run", f"{search_stack.url}/openapi.json", "--no-color",
        "--checks", ",".join(CHECKS), "--phases", "examples,fuzzing", "--max-examples", "2",
        "--generation-deterministic", "--request-timeout", "300",
        "--suppress-health-check", "all", "--continue-on-failure",
        cwd=tmp_path, env={"SCHEMATHESIS_HOOKS": "schemathesis_checks"},
    )  # fmt: skip
