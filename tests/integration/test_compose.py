"""docker-compose.yml with the fakes: a call of each toolset, shared load, rolling updates, attached servers,
nothing left."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from searchbus_cli.mcp_client import McpHttp
from searchbus_runtime.services import installed_services
from searchbus_testing import eventually

from . import engine
from .engine import ROOT, docker
from .metrics_known import known_metrics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
STARTED = [name for name, service in installed_services().items() if not service.started_by]
"""The others are in a profile, since they need a file first."""
ADDRESS = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
PROGRAM = "/programs/broad_server.py"
"""A server that the service `attach` runs in its container."""


class Stack:
    """A compose project of the tests' own."""

    def __init__(self, command: list[str], offline: bool, *files: str) -> None:
        self.project = f"searchbus-test-{uuid.uuid4().hex[:8]}"
        self._command = [*command, "-p", self.project, "-f", "docker-compose.yml"]
        if offline:
            self._command += ["-f", "deploy/offline/compose.yml"]
        for file in ("tests/integration/attached.yml", *files):
            self._command += ["-f", file]
        self.variables: dict[str, str] = {}
        self._command += ["--env-file", "deploy/compose/fakes.env"]

    def __call__(self, *arguments: str, timeout_s: float = 300, check: bool = True) -> str:
        return self.run([*self._command, *arguments], timeout_s=timeout_s, check=check)

    def run(self, command: list[str], *, timeout_s: float = 300, check: bool = True) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, cwd=ROOT, stdin=subprocess.DEVNULL,
            env={**os.environ, "COMPOSE": " ".join(self._command),
                 "TAG": "test", "PORT": "0", "ATTACH_LOGIN_PORT": "0", **self.variables},
        )  # fmt: skip
        if check:
            assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout.strip()

    @property
    def url(self) -> str:
        return f"http://{self('port', 'edge', '8080')}"

    def inside(self, service: str, url: str, number: int = 1) -> str:
        """What a container gets from one of its own addresses."""
        code = f"import urllib.request as u; print(u.urlopen('{url}').read().decode())"
        found = self("ps", "-q", service).split()  # indexes have gaps once a container was replaced
        return docker("exec", found[number - 1], "python3", "-c", code)

    def left(self) -> list[str]:
        """Containers, volumes and networks of the project."""
        label = f"label=com.docker.compose.project={self.project}"
        return [
            line
            for kind in (["ps", "-a"], ["volume", "ls"], ["network", "ls"])
            for line in docker(*kind, "-q", "--filter", label).splitlines()
        ]


def new_stack(*files: str) -> Stack:
    """A project that is not started; skips where there is no Compose or no NATS."""
    command = engine.compose_command()
    if command is None:
        pytest.skip("Compose is not installed")
    image, why_not = engine.nats_image()
    if why_not:
        pytest.skip(why_not)
    return Stack(command, image == engine.OFFLINE[1], *files)


@contextmanager
def started(stack: Stack, *services: str) -> Iterator[Stack]:
    """The project with these services, or with all; nothing of it is left."""
    try:
        stack("up", "-d", "--wait", "--wait-timeout", "180", *services)
        yield stack
    finally:
        stack("--profile", "*", "down", "-v", "--remove-orphans", check=False)


@pytest.fixture(scope="module")
def stack(images) -> Iterator[Stack]:
    with started(new_stack()) as stack:
        yield stack


@pytest.fixture
def balanced(images) -> Iterator[Stack]:
    """Two edges behind the balancer, and what a call of `web` needs: two workers, of which one may be held up by the
    machine for longer than the edges wait for an only one."""
    stack = new_stack("deploy/compose/balanced.yml")
    image, why_not = engine.balancer_image()
    if why_not:
        pytest.skip(why_not)
    stack.variables["BALANCER_IMAGE"] = image
    with started(stack, "--scale", "web=2", "edge", "web", "fakes", "balancer"):
        yield stack


def call(stack: Stack, endpoint: str, tool: str, **arguments: Any) -> str:
    result = McpHttp(f"{stack.url}{endpoint}").request(
        "tools/call", {"name": tool, "arguments": arguments}
    )
    assert not result.get("isError"), result
    return result["content"][0]["text"]


def listed(stack: Stack) -> set[str]:
    """The names of all tools on /mcp."""
    found, cursor = set(), {}
    while True:
        page = McpHttp(f"{stack.url}/mcp").request("tools/list", cursor)
        found |= {tool["name"] for tool in page["tools"]}
        if page.get("nextCursor") is None:
            return found
        cursor = {"cursor": page["nextCursor"]}


def test_one_call_of_each_toolset(stack, tmp_path):
    """Web, pages, DuckDuckGo, instant answers, documents, connector, search over tools."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "gloves.md").write_text("# Gloves\n\nWear gloves when you handle the acid.\n")
    for path in (folder, folder / "gloves.md"):
        path.chmod(0o755)
    said = stack("run", "--rm", "-T", "-v", f"{folder}:/in:ro", "cli", "ingest", "/in",
                 "--collection", "handbook", "--json")  # fmt: skip
    assert json.loads(said)["stored"] == 1
    assert json.loads(call(stack, "/mcp/web", "web_search", query="tea"))["results"]
    assert "site0.example.org" in call(stack, "/mcp/ddg", "web_search", query="coffee")
    assert call(stack, "/mcp/ddg", "instant_answer", query="python")
    page = call(stack, "/mcp/web", "web_extract_content", urls=["http://site1.example.org/x"])
    assert "ok" in page
    assert "Gloves" in call(stack, "/mcp/connector", "search", query="what to wear for the acid")
    found = McpHttp(f"{stack.url}/mcp").request("tools/search", {"query": "search the web"})
    assert any("web_search" in tool["name"] for tool in found["tools"])
    listed = McpHttp(f"{stack.url}/mcp/fomc").request("tools/list")
    assert {tool["name"] for tool in listed["tools"]} == {"search_fomc", "get_document"}


def test_readme_curl_works(stack):
    """The one curl of docs/deploy.md, against this stack."""
    text = (ROOT / "docs" / "deploy.md").read_text()
    lines = text[text.index("curl -s http://127.0.0.1:8080/mcp") :].split("```")[0]
    command = lines.replace("http://127.0.0.1:8080", stack.url)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert '"result"' in done.stdout


def test_two_scrapers_share_the_load(stack):
    """Distinct queries reach the upstream from two addresses; both workers answered."""
    for number in range(8):
        call(stack, "/mcp/ddg", "web_search", query=f"shared load {number}")
    seen = json.loads(stack.inside("fakes", "http://127.0.0.1:8001/_fake"))
    assert len(seen["addresses"]) == 2
    assert seen["challenges"] == 0
    for number in (1, 2):
        text = stack.inside("ddg", "http://127.0.0.1:9090/metrics", number)
        asked = [
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith("searchbus_upstream_request_duration_seconds_count")
        ]
        assert sum(asked) >= 1


def test_bus_is_locked_and_nothing_needed_is_refused(stack):
    """No service violated its permissions; a client without a key is refused, also one that trusts the server, and
    one that does not trust it sends no key."""
    logs = stack("logs", "--no-color")
    assert "permissions violation" not in logs.lower()
    assert "cannot be opened" not in logs
    code = (
        "import asyncio, nats, ssl, sys\n"
        "async def go():\n"
        "    trusted = ssl.create_default_context(cafile=sys.argv[1])\n"
        "    try:\n"
        "        await nats.connect('tls://nats:4222', tls=trusted, allow_reconnect=False, connect_timeout=3)\n"
        "        print('in')\n"
        "    except Exception as error:\n"
        "        print('out', error)\n"
        "asyncio.run(go())"
    )
    for authority, why in (
        ("/run/secrets/searchbus/ca.crt", "Authorization Violation"),
        ("/etc/ssl/certs/ca-certificates.crt", "certificate verify failed"),
    ):
        said = stack("exec", "-T", "web", "python3", "-c", code, authority)
        assert said.startswith("out"), said
        assert why in said
    # Each container holds its own seed and nobody else's.
    seeds = {
        stack("exec", "-T", service, "cat", "/run/secrets/searchbus/SEARCHBUS_NATS_NKEY_SEED")
        for service in STARTED
    }
    assert len(seeds) == len(STARTED)


def read_pages(
    addresses: list[str], name: int, stop: threading.Event, ended: list[int]
) -> list[str]:
    """Call the edges in turn until `stop` is set, and count it in `ended`; returns the failures, with how long each
    took."""
    asked, failures = 0, []
    headers = {
        "Accept": "application/json, text/event-stream",
        # The edge accepts no Host header with a container's own address.
        "Host": "127.0.0.1:8080",
    }
    while not stop.is_set():
        asked += 1
        arguments = {"urls": [f"http://site{name}.example.org/{asked}"]}
        call = {"name": "web_extract_content", "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": asked, "method": "tools/call", "params": call}
        now = list(addresses)
        address = now[asked % len(now)]
        began_s = time.monotonic()

        def failed(how: str, address: str = address, began_s: float = began_s) -> None:
            failures.append(f"{time.monotonic() - began_s:.1f} s at {address}: {how}")

        try:
            answer = httpx.post(
                f"http://{address}/mcp/web", json=body, headers=headers, timeout=30,
                trust_env=False,
            )  # fmt: skip
        except httpx.HTTPError as error:
            failed(repr(error))
        else:
            if answer.status_code != 200 or '"isError":true' in answer.text:
                failed(answer.text[:300])
        ended[name] += 1
    return failures


def address_of(edge: str) -> str:
    return f"{docker('inspect', '-f', ADDRESS, edge)}:8080"


@contextmanager
def called_meanwhile(stack: Stack, addresses: list[str]) -> Iterator[Callable[[], None]]:
    """Calls run on all addresses that are in the list meanwhile, and none fails.

    What is yielded waits until no call runs that began before it.
    """
    stop, ended = threading.Event(), [0] * 4

    def new_calls_run() -> None:
        before = list(ended)
        eventually(lambda: all(map(int.__gt__, ended, before)), timeout_s=300)

    with ThreadPoolExecutor(len(ended)) as pool:
        callers = [pool.submit(read_pages, addresses, n, stop, ended) for n in range(len(ended))]
        try:
            new_calls_run()
            yield new_calls_run
            new_calls_run()
        finally:
            stop.set()
        failures = [text for each in callers for text in each.result()]
    assert failures == [], stack("logs", "-t", "--no-color", "--tail", "100", "edge", "web")


def test_upgrade_replaces_all_workers_and_loses_nothing(stack):
    """The command of docs/deploy.md, while calls run."""
    before = set(stack("ps", "-q", "web").splitlines())
    with called_meanwhile(stack, [address_of(edge) for edge in stack("ps", "-q", "edge").split()]):
        stack.run(["deploy/compose/upgrade", "web"])
    after = set(stack("ps", "-q", "web").splitlines())
    assert len(after) == len(before)
    assert not after & before


def test_upgrade_that_fails_leaves_what_was_there(stack):
    """New containers that do not start are removed: the next try would count them."""
    before = set(stack("ps", "-aq", "web").splitlines())
    stack.variables["LOG_LEVEL"] = "wrong"
    try:
        done = stack.run(["deploy/compose/upgrade", "web"], check=False)
    finally:
        del stack.variables["LOG_LEVEL"]
    assert set(stack("ps", "-aq", "web").splitlines()) == before, done
    assert json.loads(call(stack, "/mcp/web", "web_search", query="after a failed upgrade"))[
        "results"
    ]


def test_upgrade_replaces_all_edges_behind_the_balancer_and_loses_nothing(balanced):
    """The same command for the edge; clients know the balancer's address only."""
    before = set(balanced("ps", "-q", "edge").split())
    assert len(before) == 2
    with called_meanwhile(balanced, [balanced("port", "balancer", "8080")]):
        balanced.run(["deploy/compose/upgrade", "edge"])
    after = set(balanced("ps", "-q", "edge").split())
    assert len(after) == len(before)
    assert not after & before


def test_an_edge_that_is_stopped_loses_nothing(stack):
    """One of two, as Kubernetes stops it; load balancers remove it first, the pod's preStop waits for that."""
    stack("up", "-d", "--no-recreate", "--scale", "edge=2", "--wait", "edge")
    second = stack("ps", "-q", "edge").splitlines()[-1]
    addresses = [address_of(edge) for edge in stack("ps", "-q", "edge").split()]
    with called_meanwhile(stack, addresses) as new_calls_run:
        addresses.remove(address_of(second))
        new_calls_run()
        docker("stop", "-t", "25", second)
    docker("start", second)
    stack("up", "-d", "--no-recreate", "--scale", "edge=2", "--wait", "edge")


READS_ITS_FILES = """
import pathlib, ssl
folder, seen = pathlib.Path("/run/secrets/searchbus"), set()
pair = folder / "client.crt", folder / "client.key"
while len(seen) < 4:
    for path in folder.glob("[!.]*"):
        path.read_bytes()
    ssl.create_default_context().load_cert_chain(*pair)
    seen.add(pair[0].read_bytes())
"""


def test_a_service_can_read_its_files_while_keys_are_written(stack):
    """`docker compose up` writes those of all services; one may be starting, as after a crash."""
    edge, keys = stack("ps", "-q", "edge").split()[0], stack("ps", "-aq", "keys")
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(docker, "exec", edge, "python3", "-c", READS_ITS_FILES)
        while not reader.done():
            docker("start", "-a", keys)
        reader.result()


def test_every_metric_of_dashboard_and_alerts_is_measured(stack):
    """What the code declares is what /metrics shows, name for name."""
    shown: set[str] = set()
    for service in STARTED:
        for line in stack.inside(service, "http://127.0.0.1:9090/metrics").splitlines():
            if line and not line.startswith("#"):
                shown.add(line.partition("{")[0].partition(" ")[0])
    own = {name for name in shown if name.startswith(("searchbus_", "mcp_"))}
    assert own <= known_metrics()
    never_here = {
        # Nothing was shed, refused, forbidden, unreadable or lost; no key of Tavily's is set.
        "searchbus_worker_shed_total", "searchbus_http_refused_total", "searchbus_bus_errors_total",
        "searchbus_bus_reconnects_total", "searchbus_tavily_credits_total",
        "searchbus_auth_keys_file_unreadable_total", "searchbus_audit_dropped_total",
        "searchbus_similarities_failed_total", "searchbus_web_rows_lost_total",
            "searchbus_web_provider_timeouts_total", "searchbus_budget_refused_total",
            "searchbus_credential_refused_total", "searchbus_edge_tasks_total",  # no call is long
        # No service is away, and no changed definition is held.
        "searchbus_service_away", "searchbus_tool_held_total",
    }  # fmt: skip
    # No server is attached, no page rendered.
    absent = ("searchbus_attach_", "searchbus_browser_")
    never_here |= {name for name in known_metrics() if name.startswith(absent)}
    missing = {n for n in known_metrics() if n.startswith(("searchbus_", "mcp_"))} - own
    assert missing <= never_here


def test_attached_servers_in_containers(stack):
    """A command and a remote server, by the commands of docs/attach.md: listed and called, also
    after a restart; SIGTERM ends the service in time, and a removed server leaves no process."""
    profile = ("--profile", "attach")
    stack(*profile, "up", "-d", "--no-recreate", "--wait", "attach", "far")

    def attach(*arguments: str) -> str:
        return stack("exec", "-T", "attach", "searchbus", "attach", *arguments)

    def are_up() -> bool:
        rows = json.loads(attach("list", "--json"))
        return {row["name"]: row["state"] for row in rows} == {"near": "up", "far": "up"}

    def answers(tool: str, **arguments: Any) -> str:
        # The edge lists the tools of a server shortly after the service.
        engine.wait_for(lambda: tool in listed(stack), f"{tool} on /mcp", timeout_s=200)
        return call(stack, "/mcp", tool, **arguments)

    attach("add", "near", "--", "python3", "-I", "-S", PROGRAM)
    attach("add", "far", "--url", "http://far:3001/mcp")
    engine.wait_for(are_up, "both are attached", timeout_s=200)
    assert "5" in answers("near__sum", a=2, b=3)
    assert answers("far__reverse", text="tea") == "aet"
    container = stack("ps", "-q", "attach")
    docker("stop", "-t", "35", container)
    state = json.loads(docker("inspect", "-f", "{{json .State}}", container))
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)
    stack(*profile, "up", "-d", "--no-recreate", "--wait", "attach")
    assert answers("near__echo", text="tea") == "tea"
    assert PROGRAM in docker("top", container)
    attach("remove", "near")
    engine.wait_for(
        lambda: PROGRAM not in docker("top", container), "its process has ended", timeout_s=200
    )
    logs = stack("logs", "--no-color", "attach", "nats")
    assert "permissions violation" not in logs.lower()
    assert "Traceback" not in logs
    stack(*profile, "rm", "-s", "-f", "attach", "far")


def test_down_leaves_nothing(stack):
    """No container, no volume, no network."""
    assert stack.left()
    stack("--profile", "*", "down", "-v", "--remove-orphans")
    assert stack.left() == []
