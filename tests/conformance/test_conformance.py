"""The official MCP conformance suite, through edge → bus → a worker that offers its fixtures."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from .npm import conformance, inspector

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def endpoint(start_stack, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a stack with the test worker."""
    stack = start_stack(
        tmp_path_factory.mktemp("conformance"),
        "--service", "conformance=tests.conformance.worker",
    )  # fmt: skip
    return stack.url


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_conformance_suite_passes_but_for_the_baseline(node, endpoint, revision, tmp_path):
    """Every server scenario of the revision, through the whole path."""
    expected = Path(__file__).with_name(f"baseline-{revision}.yml")
    conformance(
        node, f"{endpoint}/mcp/conformance", revision, tmp_path,
        "--suite", "all", "--expected-failures", str(expected),
    )  # fmt: skip


EXTENSIONS = [
    "tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields",
    "tasks-request-state-removal", "tasks-mrtr-input", "tasks-request-headers",
    "tasks-dispatch-and-envelope", "tasks-required-task-error", "tasks-mrtr-composition",
    "sep-2640-skills-enumeration", "sep-2640-skills-manifest",
]  # fmt: skip
"""Those of the suite for what we offer; it has none yet for notifications of tasks."""


@pytest.mark.parametrize("scenario", EXTENSIONS)
def test_a_scenario_of_an_extension_passes(node, endpoint, scenario, tmp_path):
    """They are on no revision's list, so each is forced."""
    conformance(
        node,
        f"{endpoint}/mcp/conformance",
        "2026-07-28",
        tmp_path,
        "--scenario",
        scenario,
        "--force",
    )


@pytest.mark.parametrize("path", ["/mcp", "/mcp/fomc"])
def test_inspector_lists_and_calls_the_tools(node, endpoint, path):
    """The Inspector's command line sees both tools and gets the typed failure of an empty store."""
    listed = inspector(node, endpoint + path, "--method", "tools/list")
    assert listed.returncode == 0, listed.stderr
    names = {tool["name"] for tool in json.loads(listed.stdout)["tools"]}
    assert {"search_fomc", "get_document"} <= names
    called = inspector(
        node, endpoint + path, "--method", "tools/call", "--tool-name", "search_fomc",
        "--tool-arg", "query=inflation",
    )  # fmt: skip
    assert "empty_corpus" in called.stdout + called.stderr
    assert called.returncode == 5  # the Inspector's code for a tool's own error


def test_health_and_about_answer(endpoint):
    """The plain HTTP side of the edge."""
    assert httpx.get(f"{endpoint}/readyz").json()["status"] == "ok"
    assert "/mcp/conformance" in httpx.get(endpoint).json()["endpoints"]
    assert "searchbus_bus_request_duration" in httpx.get(f"{endpoint}/metrics").text
