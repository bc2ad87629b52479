"""A stack under `--secure`: every service does its part, and no secret appears anywhere."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from searchbus_bus import connect
from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id
from searchbus_testing import SEARCHBUS, Stack, eventually, until

from .test_extensions import ask

pytestmark = pytest.mark.slow
PAID_KEY = "tvly-canary-key-4711"
WORD = "canaryquery0815"
PASSWORD = "canary-proxy-password"
SITE = "http://crawled.example.org/"


@pytest.fixture(scope="module")
def secured_stack(start_stack, tmp_path_factory) -> Stack:
    """A stack with keys and permissions for each service and a paid key, which logs everything."""
    return start_stack(
        tmp_path_factory.mktemp("secured"), "--secure", "--fake-upstreams", "--scale", "ddg=2",
        SEARCHBUS_LOG_LEVEL="debug", SEARCHBUS_TASK_AFTER_S="0.05", SEARCHBUS_TAVILY_API_KEYS=json.dumps([PAID_KEY]),
    )  # fmt: skip


def test_whole_stack_runs_under_the_permissions(secured_stack, tmp_path):
    """Every toolset answers, large requests and caches too; no operation was refused."""
    run = secured_stack.command
    # Over 1 MiB, the most that one message of NATS may hold: it travels in pieces.
    (tmp_path / "okapi.md").write_text(
        "# Okapis\n\n" + "The okapi browses leaves in Ituri. " * 32_000
    )
    done = run("ingest", str(tmp_path), "--collection", "notes")
    assert done.returncode == 0, done.stderr
    for name, arguments in (
        ("search", ["query=okapi"]), ("web_search", ["query=whales"]), ("ddg_web_search", ["query=whales"]),
        ("instant_answer", ["query=rust"]), ("research_brief", ["question=what does an okapi browse"]),
        ("verify_quote", [f"id=doc:notes:{document_id('notes', 'okapi.md')}", "quote=okapis browse leaves"]),
        ("web_extract_content", ['urls=["http://a.example.org/article"]']),
        ("web_find", ["query=okapi"]), ("engines", []), ("read_page", ['urls=["http://a.example.org/article"]']),
        ("page_data", ["url=http://a.example.org/product", 'schema={"properties": {"name": {}}}']),
        ("map_site", [f"url={SITE}"]), ("crawl", [f"url={SITE}", "collection=crawled"]),
        ("find_tools", ["query=search the web"]),
        ("run_plan", ['steps=[{"id": "a", "tool": "search", "arguments": {"query": "okapi"}}]',
                      'output={"ids": "$.a.results[*].id"}']),
    ):  # fmt: skip
        done = run("tools", "call", name, *arguments)
        assert done.returncode == 0, (name, done.stderr)
    assert json.loads(run("search", "okapi", "--collection", "notes", "--json").stdout)["hits"]
    assert "web_search" in run("tools", "search", "search the web").stdout
    assert run("doctor").returncode == 0
    assert "ermissions violation" not in secured_stack.log.lower().replace(
        "permissions", "ermissions"
    )
    assert "ermissions Violation" not in secured_stack.log
    secret = json.loads((secured_stack.data / "secure" / "keys.json").read_text())
    assert secret["actor_private"] not in secured_stack.log
    assert (secured_stack.data / "secure" / "keys.json").stat().st_mode & 0o077 == 0


async def test_crawl_becomes_a_task_by_the_general_rule(secured_stack):
    """It declares no time of its own: the crawl of two pages takes longer than the edge waits."""
    given = {"url": SITE, "collection": "crawled-as-a-task"}
    async with httpx.AsyncClient(base_url=secured_stack.url, timeout=60) as http:
        edge = SimpleNamespace(http=http)
        created = await ask(edge, "tools/call", None, name="crawl", arguments=given)
        assert created.json()["result"]["resultType"] == "task"
        task_id = created.json()["result"]["taskId"]
        found = {}

        async def ended() -> bool:
            nonlocal found
            found = (await ask(edge, "tasks/get", None, taskId=task_id)).json()["result"]
            return found["status"] != "working"

        await until(ended, timeout_s=120)
    assert found["status"] == "completed"
    assert found["result"]["structuredContent"]["stored"] == 1


async def test_client_on_standard_input_calls_what_costs_money(secured_stack):
    """It joins as an edge, with the buckets that count such calls: uncounted they are refused."""
    arguments = ["stdio", "--data", str(secured_stack.data)]
    command = StdioServerParameters(command=str(SEARCHBUS), args=arguments, env={**os.environ})
    async with Client(command) as client:
        found = await client.call_tool("web_search", {"query": "whales"})
    assert not found.is_error, found
    assert "ermissions Violation" not in secured_stack.log


async def test_secured_bus_refuses_a_client_without_keys(secured_stack):
    """Knowing its URL is not enough."""
    with pytest.raises(Fault):
        await connect(secured_stack.state["nats_url"], name="x", connect_timeout_s=2.0)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
@pytest.mark.skipif(os.geteuid() != 0, reason="others cannot even look")
def test_no_process_was_started_with_a_secret(secured_stack):
    """Neither with the stack nor again when it had ended; no child of a service either."""
    processes = secured_stack.state["processes"]
    os.kill(processes["ddg-2"], signal.SIGKILL)
    eventually(
        lambda: secured_stack.state["processes"]["ddg-2"] != processes["ddg-2"], timeout_s=120
    )
    stack = psutil.Process(secured_stack.state["pid"])
    # It answers again, so it has read its settings.
    assert secured_stack.command("tools", "call", "ddg_web_search", "query=whales").returncode == 0
    secrets = json.loads((secured_stack.data / "secure" / "keys.json").read_text())
    hidden = [PAID_KEY, secrets["actor_private"], *secrets["seeds"].values()]
    every = [stack, *stack.children(recursive=True)]
    assert len(every) > len(processes)
    for process in every:
        shown = Path(f"/proc/{process.pid}/environ").read_text()
        assert not [secret for secret in hidden if secret in shown], process.cmdline()
        assert "PATH=" in shown


# Comes last: one of its searches makes the provider refuse the paid key for an hour.
def test_nothing_secret_is_written_anywhere(secured_stack):
    """Neither where all goes well nor where everything fails."""
    printed = ""
    for name, argument in (
        ("web_search", f"query={WORD} whales"), ("web_search", f"query={WORD} http401"),
        ("web_search_news", f"query={WORD} http500"), ("search", f"query={WORD}"),
        ("ddg_web_search", f"query={WORD} http500"), ("instant_answer", f"query={WORD} http500"),
        ("web_extract_content", f'urls=["http://a.example.org/{WORD}", "http://user:{PASSWORD}@a.example.org/"]'),
        ("search_fomc", f"query={WORD}"), ("fetch", f"id=doc:none:{WORD}"), ("find_tools", f"query={WORD}"),
    ):  # fmt: skip
        done = secured_stack.command("tools", "call", name, argument, "--raw")
        printed += done.stdout + done.stderr
    log = secured_stack.log
    traces = "".join(p.read_text() for p in secured_stack.data.glob("traces*.jsonl"))
    assert "web_search" in log
    assert "tools/call web_search" in traces
    secrets = json.loads((secured_stack.data / "secure" / "keys.json").read_text())
    hidden = [PAID_KEY, secrets["actor_private"], *secrets["seeds"].values()]
    for secret in hidden:
        for place, text in (("log", log), ("traces", traces), ("replies", printed)):
            assert secret not in text, place
    for place, text in (("log", log), ("traces", traces)):
        assert WORD not in text, place
        assert PASSWORD not in text, place
