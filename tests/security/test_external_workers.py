"""The workers of examples/, in JavaScript and Go, on the locked bus: what clients see of them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from nats.aio.client import Client

from searchbus_testing import NatsServer, eventually, run_command
from searchbus_testing.folders import locked

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
BUILD = ROOT / "build" / "workers"
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@dataclass(frozen=True)
class Example:
    """A worker, and calls of its tools.

    Args:
        build: makes it and returns its command line; skips where its tools are absent.
        result: a pattern that the text of `call` fits.
        wrong: arguments that fit the schema, and that the worker answers with not_found.
        long: a call of several reports of progress, `pause_ms` apart.
        large: a call with a reply of more than 2 MB.
    """

    name: str
    build: Callable[[], list[str]]
    request: str
    call: tuple[str, dict[str, Any]]
    result: str
    wrong: dict[str, Any]
    long: dict[str, Any]
    large: tuple[str, dict[str, Any]]

    @property
    def tool(self) -> str:
        return self.call[0]


def needed(program: str) -> str:
    """The path of a program; without it the test is skipped, in CI failed."""
    found = shutil.which(program)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{program} is missing: the example workers cannot run")
        pytest.skip(f"the example workers need {program}")
    return found


def run(*command: str, folder: Path) -> None:
    """Fetch or build; a registry that cannot be reached skips the test."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    if done.returncode and re.search(r"ENOTFOUND|ECONNREFUSED|dial tcp|ETIMEDOUT", done.stderr):
        pytest.skip(f"{command[0]} reached no registry")
    assert done.returncode == 0, done.stderr


def build_js() -> list[str]:
    node, npm = needed("node"), needed("npm")
    folder = BUILD / "js"
    with locked(BUILD / "js.lock"):
        shutil.copytree(EXAMPLES / "worker-js", folder, dirs_exist_ok=True)
        if not (folder / "node_modules").is_dir():
            run(npm, "ci", "--no-audit", "--no-fund", folder=folder)
    return [node, str(folder / "dice.mjs")]


def build_go() -> list[str]:
    go = needed("go")
    program = BUILD / "primes"
    with locked(BUILD / "go.lock"):
        run(go, "build", "-o", str(program), ".", folder=EXAMPLES / "worker-go")
    return [str(program)]


DICE = Example(
    "dice", build_js, "throw two dice", ("roll", {"sides": 6, "count": 2}),
    r'\{"dice":\[[1-6],[1-6]\]\}', {"sides": 1}, {"sides": 6, "count": 10},
    ("table", {"size_bytes": 2_500_000}),
)  # fmt: skip
PRIMES = Example(
    "primes", build_go, "prime numbers", ("between", {"from": 10, "to": 20}),
    "11\n13\n17\n19\n", {"from": 24, "to": 28}, {"from": 0, "to": 99},
    ("between", {"from": 0, "to": 5_000_000}),
)  # fmt: skip


@dataclass
class Worker:
    """The process of an example."""

    process: subprocess.Popen[str]
    log: list[str]

    @property
    def instance(self) -> str:
        return self.log[0].split()[-1]


@dataclass(frozen=True)
class Bus:
    """A server with the written configuration, an edge and toolindex on it."""

    out: Path
    nats_url: str
    url: str

    def start(self, example: Example) -> Worker:
        """Start a worker, and wait until its calls succeed."""
        process = subprocess.Popen(
            example.build(), stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment(self.nats_url, self.out / example.name)},
        )  # fmt: skip
        worker = Worker(process, [])
        assert process.stderr is not None
        threading.Thread(
            target=lambda: worker.log.extend(process.stderr or ()), daemon=True
        ).start()
        eventually(lambda: self.serves(example), message=lambda: str(worker.log))
        return worker

    def serves(self, example: Example) -> bool:
        """Whether its tool can be called now; it stays listed for a while without a worker."""
        return example.tool in self.tools(example) and not self.call(example, *example.call)[0]

    def request(self, example: Example, method: str, **params: Any) -> dict[str, Any]:
        """The last message of the answer."""
        return self.messages(example, method, **params)[-1]

    def messages(self, example: Example, method: str, **params: Any) -> list[dict[str, Any]]:
        """All messages of the answer: progress, and the response."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx.post(
            f"{self.url}/mcp/{example.name}", json=body, headers=HEADERS, timeout=300
        )
        lines = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines or [answer.text]]

    def tools(self, example: Example) -> list[str]:
        result = self.request(example, "tools/list").get("result", {"tools": ()})
        return [tool["name"] for tool in result["tools"]]

    def call(self, example: Example, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Whether the result is an error, and its text."""
        result = self.request(example, "tools/call", name=tool, arguments=arguments)["result"]
        return bool(result.get("isError")), result["content"][0]["text"]

    async def connected(self, name: str) -> Client:
        """A connection with the keys of a service."""
        client, folder = Client(), self.out / name
        trusted = ssl.create_default_context(cafile=folder / "ca.crt")
        trusted.load_cert_chain(folder / "client.crt", folder / "client.key")
        seed = (folder / "SEARCHBUS_NATS_NKEY_SEED").read_text()
        await client.connect(self.nats_url, nkeys_seed_str=seed, tls=trusted)
        return client

    async def in_flight(self, example: Example, worker: Worker) -> int:
        """How many requests a worker has, as it answers a ping."""
        client = await self.connected("cli")
        try:
            reply = f"_INBOX_cli.x.{example.name}.token"
            pongs = await client.subscribe(reply)
            ping = f"sb.v1.ctl.ping.{example.name}.{worker.instance}"
            await client.publish(ping, b"{}", reply=reply)
            return int(json.loads((await pongs.next_msg(timeout=60)).data)["in_flight"])
        finally:
            await client.close()


def environment(nats_url: str, secrets: Path) -> dict[str, str]:
    return {
        "SEARCHBUS_NATS_URL": nats_url, "SEARCHBUS_SECRETS_DIR": str(secrets),
        "SEARCHBUS_NATS_CA_FILE": str(secrets / "ca.crt"),
        "SEARCHBUS_NATS_CERT_FILE": str(secrets / "client.crt"),
        "SEARCHBUS_NATS_KEY_FILE": str(secrets / "client.key"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    folder = tmp_path_factory.mktemp("bus")
    out = folder / "secrets"
    for example in (DICE, PRIMES):
        done = run_command(
            "nats-config",
            "--out",
            out,
            "--tls",
            "--tls-verify",
            "--worker",
            example.name,
            "--toolset",
            example.name,
        )
        assert done.returncode == 0, done.stderr
    config = out / "nats" / "nats.conf"
    server = NatsServer(folder, arguments=("-c", str(config), "-sd", str(folder / "js")))
    server.start()
    nats_url = f"tls://localhost:{server.port}"
    with ExitStack() as stack:
        stack.callback(server.stop)
        for name in ("edge", "toolindex"):
            process = subprocess.Popen(
                [sys.executable, "-m", "searchbus_runtime", name],
                env={
                    **os.environ,
                    **environment(nats_url, out / name),
                    "SEARCHBUS_DATA_DIR": str(folder / name),
                    "SEARCHBUS_EMBEDDER": "hash",
                    "SEARCHBUS_HEALTH_PORT": "0",
                    **({"SEARCHBUS_PORT": "0", "SEARCHBUS_PORT_FILE": str(folder / "port")}
                       if name == "edge" else {}),
                },
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
        eventually((folder / "port").exists)
        yield Bus(out, nats_url, f"http://127.0.0.1:{(folder / 'port').read_text()}")


@pytest.fixture(params=[DICE, PRIMES], ids=lambda example: example.name)
def example(request: pytest.FixtureRequest) -> Example:
    found: Example = request.param
    found.build()
    return found


@pytest.fixture
def worker(bus: Bus, example: Example) -> Iterator[Worker]:
    started = bus.start(example)
    yield started
    started.process.terminate()
    started.process.wait(60)


def test_its_tools_are_listed_found_and_called(bus: Bus, example: Example, worker: Worker) -> None:
    """As those of the services in this repository."""
    assert set(bus.tools(example)) == {example.tool, example.large[0]}

    def found() -> bool:
        reply = bus.request(example, "tools/search", query=example.request)
        return example.tool in [tool["name"] for tool in reply.get("result", {}).get("tools", ())]

    eventually(found)
    failed, text = bus.call(example, *example.call)
    assert (failed, bool(re.fullmatch(example.result, text))) == (False, True), text


def test_its_failures_have_their_text(bus: Bus, example: Example, worker: Worker) -> None:
    """One that the worker found, and arguments outside the schema."""
    failed, text = bus.call(example, example.tool, example.wrong)
    assert failed
    assert "There is no die" in text or "No prime" in text
    failed, _ = bus.call(example, example.tool, {})
    assert failed


def test_progress_arrives_before_the_result(bus: Bus, example: Example, worker: Worker) -> None:
    """In order, each larger than the one before."""
    *events, last = bus.messages(
        example, "tools/call", name=example.tool, arguments={**example.long, "pause_ms": 50},
        _meta={"progressToken": "p"},
    )  # fmt: skip
    assert not last["result"].get("isError")
    progress = [event["params"]["progress"] for event in events]
    assert len(progress) > 1
    assert progress == sorted(set(progress))


def test_a_large_reply_arrives_whole(bus: Bus, example: Example, worker: Worker) -> None:
    """In parts with credit, of which the receiver checks size and hash."""
    tool, arguments = example.large
    failed, text = bus.call(example, tool, arguments)
    assert not failed
    assert len(text) > 2_000_000


async def test_a_call_is_cancelled_when_its_client_leaves(
    bus: Bus, example: Example, worker: Worker
) -> None:
    """The worker works no more on it, long before it would be done."""
    params = {"name": example.tool, "arguments": {**example.long, "pause_ms": 60_000}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx.AsyncClient(timeout=300) as client:
        call = client.build_request(
            "POST", f"{bus.url}/mcp/{example.name}", json=body, headers=HEADERS
        )
        task = asyncio.create_task(client.send(call))
        while await bus.in_flight(example, worker) == 0:
            await asyncio.sleep(0.05)
        task.cancel()
        while await bus.in_flight(example, worker):
            await asyncio.sleep(0.05)


def test_a_worker_that_stops_finishes_its_calls(bus: Bus, example: Example, worker: Worker) -> None:
    """The call that it has is answered, and it ends with success; later calls find no worker."""
    messages: list[dict[str, Any]] = []
    arguments = {**example.long, "pause_ms": 600}
    call = threading.Thread(
        target=lambda: messages.extend(
            bus.messages(example, "tools/call", name=example.tool, arguments=arguments)
        )
    )
    call.start()
    eventually(lambda: asyncio.run(bus.in_flight(example, worker)) == 1)
    worker.process.send_signal(signal.SIGTERM)
    call.join(60)
    assert not messages[-1]["result"].get("isError")
    assert worker.process.wait(60) == 0
    failed, text = bus.call(example, *example.call)
    assert (failed, text.split(":")[0]) == (True, "unavailable")


async def test_a_caller_that_no_edge_signed_is_refused(
    bus: Bus, example: Example, worker: Worker
) -> None:
    """Though it holds an edge's nkey: neither without a signature nor with one of its own."""
    client = await bus.connected("edge")
    reply = f"_INBOX_edge.x.{example.name}.token"
    replies = await client.subscribe(reply)
    body = json.dumps({"tool": example.tool, "arguments": example.call[1]}).encode()
    sent = {"Actor": '{"subject":"root","roles":["*"]}', "Req-Id": "0" * 32}
    for forged in ({}, {"Actor-Sig": ""}, {"Actor-Sig": "9999999999999.." + "A" * 86}):
        subject = f"sb.v1.tool.{example.name}.{example.tool}"
        await client.publish(subject, body, reply=reply, headers={**sent, **forged})
        answer = await replies.next_msg(timeout=60)
        assert (answer.headers or {})["Nats-Service-Error-Code"] == "forbidden"
    await client.close()


def test_it_can_do_no_more_than_it_declared(bus: Bus, example: Example) -> None:
    """Neither another's toolset nor another's inbox is in its lists."""
    config = (bus.out / "nats" / "nats.conf").read_text()
    accounts = json.loads(config[config.index("accounts: ") + len("accounts: ") :])
    lists = [user["permissions"] for user in accounts["BUS"]["users"]]
    (own,) = [one for one in lists if f"_INBOX_{example.name}.>" in one["subscribe"]["allow"]]
    tools = [subject for subject in own["subscribe"]["allow"] if ".tool." in subject]
    assert tools == [f"sb.v1.at.*.tool.{example.name}.*", f"sb.v1.tool.{example.name}.*"]
    assert not [subject for subject in own["publish"]["allow"] if ".tool." in subject]
