"""One tenant lends a toolset to another: what the borrower's clients have of it, and what not.

The tenants are locked: their processes have the keys and permissions that the command writes. `red`
has the toolsets crm and payroll, and lends crm to `blue`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from msgspec import Meta, Raw, Struct

from searchbus_bus import (
    ActorSigner,
    ActorVerifier,
    Bus,
    Call,
    Directory,
    Seeds,
    Toolset,
    Worker,
    connect,
    tool,
)
from searchbus_bus.nats.overrides import BusClient
from searchbus_cli.secure import bus_account, new_seed, public_key, store_account, with_buckets
from searchbus_contracts import Actor, ErrorCode, Fault, ToolCall, ToolReply, encode
from searchbus_contracts.services import Service, publishes, subscribes
from searchbus_contracts.subjects import inbox_prefix
from searchbus_runtime.services import bus_users
from searchbus_testing import NatsServer, eventually, known, run_command, until

from .locked_bus import quiet, worker_of

pytestmark = pytest.mark.slow
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
LENT = {"find", "missing", "steps", "hold", "table", "who"}
SECRETS = ("payroll", "salaries", "redp", "close_deal", "sales-team")
"""Words that only red's bus has."""


class Customer(Struct):
    name: Annotated[str, Meta(max_length=100, description="A customer's name.")] = "Ann"


class Size(Struct):
    size_bytes: int


class Crm(Toolset, name="crm"):
    """Customers."""

    def __init__(self) -> None:
        self.holding = 0
        self.actors: list[Actor] = []

    @tool(title="Find a customer")
    async def find(self, call: Call, arguments: Customer) -> Customer:
        """Find a customer of the company by name."""
        self.actors.append(call.actor)
        return arguments

    @tool(title="Fail")
    async def missing(self, call: Call, arguments: Customer) -> Customer:
        """Look for a customer who left."""
        raise Fault(ErrorCode.NOT_FOUND, "There is no such customer. Check the name.")

    @tool(title="Steps")
    async def steps(self, call: Call, arguments: Customer) -> str:
        """Report progress."""
        for step in range(1, 4):
            await call.progress(step, 3)
        return "done"

    @tool(title="Hold")
    async def hold(self, call: Call, arguments: Customer) -> str:
        """Wait for ever."""
        self.holding += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.holding -= 1
        return ""

    @tool(title="Table")
    async def table(self, call: Call, arguments: Size) -> str:
        """Print a large table."""
        return "x" * arguments.size_bytes

    @tool(title="Who")
    async def who(self, call: Call, arguments: Customer) -> str:
        """Say who calls."""
        return f"{call.actor.subject} {','.join(call.actor.roles)}"

    @tool(title="Close a deal", required_roles=("sales-team",))
    async def close_deal(self, call: Call, arguments: Customer) -> str:
        """Needs a role."""
        return "closed"


class Payroll(Toolset, name="payroll"):
    """Not lent."""

    @tool(title="Salaries")
    async def salaries(self, call: Call, arguments: Customer) -> str:
        """All salaries."""
        return "a lot"


@dataclass
class Tenants:
    """The server, both edges, and witnesses, who may do everything in their account."""

    out: Path
    server: NatsServer
    seeds: dict[str, str]
    crm: Crm
    urls: dict[str, str] = field(default_factory=dict)

    def configure(self, *arguments: str) -> None:
        """Run the command; the witnesses stay admitted."""
        done = run_command("nats-config", "--out", self.out, *arguments)
        assert done.returncode == 0, done.stderr
        self.admit_witnesses()
        if self.server.process is not None:
            self.server.reload()

    def admit_witnesses(self) -> None:
        head, accounts = self.configuration()
        for account in accounts:
            seed = self.seeds.setdefault(account, new_seed())
            accounts[account]["users"].append({"nkey": public_key(seed)})
        self.config.write_text(f"{head}accounts: {json.dumps(accounts)}")

    @property
    def config(self) -> Path:
        return self.out / "with-witnesses.conf"

    def configuration(self) -> tuple[str, dict[str, Any]]:
        text = (self.out / "nats" / "nats.conf").read_text()
        head, _, accounts = text.partition("accounts: ")
        return head, json.loads(accounts)

    def accounts(self, tenant: str) -> list[str]:
        services = with_buckets(bus_users())
        return [bus_account(tenant), *(store_account(name, tenant) for name in services)]

    def secret(self, tenant: str, service: str, name: str) -> str:
        return (self.out / "tenants" / tenant / service / f"SEARCHBUS_{name}").read_text()

    async def member(self, tenant: str, service: str, *, signs: bool = False) -> Bus:
        """A connection with the keys of a service."""
        return await connect(
            self.server.url, name=service, prefix=f"{tenant}p",
            inbox_prefix=inbox_prefix(service),
            seeds=Seeds.of(self.secret(tenant, service, "NATS_NKEY_SEED")),
            verifier=ActorVerifier(self.secret(tenant, service, "ACTOR_PUBLIC_KEY")),
            signer=ActorSigner(self.secret(tenant, service, "ACTOR_PRIVATE_KEY"))
            if signs
            else None,
        )  # fmt: skip

    async def witness(self, account: str) -> BusClient:
        client = BusClient()
        await client.connect(
            self.server.url, nkeys_seed_str=self.seeds[account], inbox_prefix="_INBOX_witness",
            error_cb=quiet,
        )  # fmt: skip
        return client

    def messages(
        self, method: str, *, tenant: str = "blue", endpoint: str = "/crm", **params: Any
    ) -> list[dict[str, Any]]:
        """All messages of an edge's answer."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        url = f"{self.urls[tenant]}/mcp{endpoint}"
        answer = httpx.post(url, json=body, headers=HEADERS, timeout=300)
        lines = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines or [answer.text]]

    def tools(self, **where: str) -> set[str]:
        result = self.messages("tools/list", **where)[-1].get("result", {"tools": ()})
        return {one["name"] for one in result["tools"]}

    def call(self, name: str, arguments: dict[str, Any] | None = None, **where: str) -> Any:
        return self.messages("tools/call", name=name, arguments=arguments or {}, **where)[-1]


def serve_in_thread(tenants: Tenants, stop: threading.Event) -> threading.Thread:
    """A worker of red, as its `attach` serves toolsets that no service declares."""
    started = threading.Event()

    async def serve() -> None:
        bus = await tenants.member("red", "attach")
        worker = Worker("attach")
        worker.add(tenants.crm, Payroll())
        serving = await bus.serve(worker)
        started.set()
        await asyncio.to_thread(stop.wait)
        await serving.drain()
        await bus.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(60)
    return thread


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    folder = tmp_path_factory.mktemp("loans")
    out = folder / "secrets"
    server = NatsServer(
        folder, arguments=("-c", str(out / "with-witnesses.conf"), "-sd", str(folder / "js"))
    )
    tenants = Tenants(out, server, {}, Crm())
    tenants.configure("--tenant", "red", "--prefix", "redp")
    tenants.configure("--tenant", "blue", "--prefix", "bluep")
    for change in ("--lend", "--withdraw"):  # an edge that starts with the file follows it
        tenants.configure("--tenant", "red", change, "crm", "--to", "blue")
    server.start()
    with ExitStack() as stack:
        stack.callback(server.stop)
        stop = threading.Event()
        thread = serve_in_thread(tenants, stop)
        stack.callback(thread.join, 60)
        stack.callback(stop.set)
        for tenant, service in (("red", "edge"), ("blue", "edge"), ("blue", "toolindex")):
            port_file = folder / f"{tenant}.port"
            process = subprocess.Popen(
                [sys.executable, "-m", "searchbus_runtime", service],
                env={
                    **os.environ,
                    "SEARCHBUS_NATS_URL": server.url,
                    "SEARCHBUS_SECRETS_DIR": str(out / "tenants" / tenant / service),
                    "SEARCHBUS_DATA_DIR": str(folder / tenant / service),
                    "SEARCHBUS_EMBEDDER": "hash",
                    "SEARCHBUS_HEALTH_PORT": "0",
                    **({"SEARCHBUS_PORT": "0", "SEARCHBUS_PORT_FILE": str(port_file)}
                       if service == "edge" else {}),
                },
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
        for tenant in ("red", "blue"):
            eventually((folder / f"{tenant}.port").exists)
            port = (folder / f"{tenant}.port").read_text()
            tenants.urls[tenant] = f"http://127.0.0.1:{port}"
        eventually(lambda: tenants.tools(tenant="red") == LENT | {"close_deal"})
        yield tenants


@pytest.fixture
def lent(tenants: Tenants) -> Tenants:
    """With crm lent to blue, while the edges run."""
    if tenants.tools() != LENT:
        tenants.configure("--tenant", "red", "--lend", "crm", "--to", "blue")
        eventually(lambda: tenants.tools() == LENT)
    return tenants


def test_the_borrowers_clients_list_find_and_call_it(lent: Tenants) -> None:
    """Like the tools of its own services, tools that need a role of the lender excepted."""
    assert lent.tools() == LENT
    assert lent.tools(endpoint="") >= LENT

    def found() -> bool:
        reply = lent.messages("tools/search", query="find a customer of the company", endpoint="")
        tools = reply[-1].get("result", {}).get("tools", ())
        return "find" in [one["name"] for one in tools]

    eventually(found)
    result = lent.call("find", {"name": "Bob"})["result"]
    assert result["structuredContent"] == {"name": "Bob"}


def test_failures_progress_and_large_replies_arrive(lent: Tenants) -> None:
    """The failure with its code, progress in order, 2 MB in parts."""
    result = lent.call("missing")["result"]
    assert result["isError"]
    assert result["structuredContent"]["error"]["code"] == "not_found"
    result = lent.call("find", {"name": 5})["result"]
    assert result["structuredContent"]["error"]["code"] == "invalid_argument"
    *events, last = lent.messages(
        "tools/call", name="steps", arguments={}, _meta={"progressToken": "p"}
    )
    assert [event["params"]["progress"] for event in events] == [1, 2, 3]
    assert last["result"]["content"][0]["text"] == "done"
    result = lent.call("table", {"size_bytes": 2_000_000})["result"]
    assert result["content"][0]["text"] == "x" * 2_000_000


async def test_a_client_that_leaves_cancels_the_work(lent: Tenants) -> None:
    """At the lender's worker, which waits for ever otherwise."""
    params = {"name": "hold", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx.AsyncClient(timeout=300) as client:
        request = client.build_request(
            "POST", f"{lent.urls['blue']}/mcp/crm", json=body, headers=HEADERS
        )
        call = asyncio.create_task(client.send(request))
        await until(lambda: lent.crm.holding == 1)
        call.cancel()
        await until(lambda: lent.crm.holding == 0)


async def test_the_borrower_cannot_name_a_caller_or_a_role_of_the_lender(lent: Tenants) -> None:
    """Not even with the key that signs its own callers: each one is a caller of the tenant."""
    edge = await lent.member("blue", "edge", signs=True)

    async def ask(name: str) -> ToolReply:
        return await edge.request(
            edge.subjects.tool("crm", name), ToolCall(tool=name, arguments=Raw(encode({}))),
            ToolReply, service="loan-red", timeout_s=60,
            actor=Actor(subject="root", roles=("*", "sales-team", "searchbus-operator")),
        )  # fmt: skip

    reply = await ask("who")
    assert reply.content[0].text == "tenant:blue "  # type: ignore[union-attr]
    with pytest.raises(Fault) as raised:
        await ask("close_deal")
    assert raised.value.code == ErrorCode.NOT_FOUND
    await edge.close()


def every_subject(prefix: str) -> set[str]:
    """Of all services, those of the loan and of what is not lent included."""
    services = {
        **bus_users(),
        "loan-red": Service(name="loan-red", toolsets=("crm",)),
        "other": Service(name="other", toolsets=("payroll",)),
    }
    found = {
        f"{prefix}.v1.tool.{toolset}.{name}"
        for toolset, names in (("crm", [*LENT, "close_deal"]), ("payroll", ["salaries"]))
        for name in names
    }
    for service in services.values():
        found |= {
            *publishes(service, services.values(), prefix), *subscribes(service, prefix),
            *(f"$KV.{prefix}_{bucket}.x" for bucket in service.buckets),
        }  # fmt: skip
    found |= {"$JS.API.INFO", "$JS.API.STREAM.NAMES"}
    return {".".join({"*": "x", ">": "x"}.get(t, t) for t in s.split(".")) for s in found}


MARK = b"from-blue-"


async def test_nothing_that_the_borrower_sends_arrives_but_calls_of_what_is_lent(
    lent: Tenants,
) -> None:
    """Each subject of each declaration, of both tenants, with headers and a reply subject as those
    of a request, from somebody who may do everything in an account of blue.

    Everybody in each account of red is heard meanwhile. In the account of its bus come the calls
    that red's own edge makes for lent tools, and no message with what blue sent.
    """
    reds, blues = lent.accounts("red"), lent.accounts("blue")
    assert len(reds) == len(blues) > 3
    heard: list[tuple[str, bytes, str]] = []
    listening = []
    for account in reds:
        client = await lent.witness(account)

        async def note(message: Any) -> None:
            heard.append((message.subject, message.data, str(message.headers)))

        await client.subscribe(">", cb=note)
        await client.flush()
        listening.append(client)
    subjects = every_subject("redp") | every_subject("bluep") | every_subject("sb")
    assert len(subjects) > 300
    for account in blues:
        client = await lent.witness(account)
        for number, subject in enumerate(sorted(subjects)):
            body = MARK + str(number).encode()
            headers = {
                "Req-Id": f"{number:032x}",
                "Actor": '{"subject":"from-blue-","roles":["*"]}',
            }
            await client.publish(subject, body, reply="_INBOX_edge.a.loan-red.b", headers=headers)
        await client.flush()
        await client.close()
    # A call through the loan is received: so the subscriptions of the witnesses work.
    assert (await asyncio.to_thread(lent.call, "find", {"name": "marker"}))["result"]
    await until(lambda: [s for s, data, _ in heard if s == "redp.v1.tool.crm.find"])
    for client in listening:
        await client.flush()
        await client.close()
    assert not [one for one in heard if MARK in one[1] or MARK.decode() in one[2]]
    called = {s for s, _, _ in heard if ".v1.tool." in s or ".v1.resource." in s}
    assert called == {"redp.v1.tool.crm.find"}


def readable(data: bytes) -> str:
    """The text of a message, that of packed parts of catalogues included."""
    packed = re.findall(rb'"packed":"([^"]+)"', data)
    return b" ".join([data, *(zlib.decompress(base64.b64decode(one)) for one in packed)]).decode()


async def test_nothing_of_the_lender_is_in_the_borrowers_accounts_but_what_is_lent(
    lent: Tenants,
) -> None:
    """Whatever is sent in blue's accounts while its edges look for services, list, search, call
    and fail has no word of what red has besides.
    """
    heard: list[tuple[str, str]] = []
    listening = []
    for account in lent.accounts("blue"):
        client = await lent.witness(account)

        async def note(message: Any) -> None:
            heard.append((message.subject, f"{readable(message.data)} {message.headers}"))

        await client.subscribe(">", cb=note)
        await client.flush()
        listening.append(client)
    edge = await lent.member("blue", "edge", signs=True)
    directory = Directory(edge)
    await directory.start()
    await known(directory, "connector", "toolindex", "loan-red")
    tools = {c.service: {(t.toolset, t.name) for t in c.tools} for c in directory.catalogs}
    assert tools.keys() == {"connector", "toolindex", "loan-red"}
    assert tools["loan-red"] == {("crm", name) for name in LENT}
    for toolset, name in (("crm", "find"), ("crm", "close_deal"), ("payroll", "salaries")):
        await asyncio.to_thread(lent.call, name, endpoint=f"/{toolset}")
    for verb, toolset in (("list", "crm"), ("read", "payroll"), ("list", "documents")):
        with pytest.raises(Fault):
            await edge.request(
                edge.subjects.resource(toolset, verb), {}, dict, service="loan-red", timeout_s=5
            )
    # Who pings for parts lets the edge note its clients from then on.
    loan = await worker_of(edge, "loan-red")
    for _ in range(2):
        pong = await edge.live("loan-red", loan.instance, 60)
        assert pong is not None
        assert (pong.limit > 0, pong.parts) == (True, ())
        await asyncio.to_thread(lent.call, "find", tenant="red")
    await until(lambda: [text for _, text in heard if "Find a customer" in text])
    await directory.close()
    for client in listening:
        await client.flush()
        await client.close()
    await edge.close()
    assert not [s for s, text in heard if "redp" in s + text or "sales-team" in text]
    # The other words are in what blue itself asked for.
    from_red = [(s, t) for s, t in heard if s.startswith("_INBOX") or ".loan-red" in s]
    assert len(from_red) > 3
    assert not [one for one in from_red for word in SECRETS if word in one[1]]


def test_the_lenders_user_is_a_worker_with_the_lent_toolset_and_no_more(lent: Tenants) -> None:
    """What red's edge may do in blue's account: no call, no list, no bucket, no other toolset."""
    _, accounts = lent.configuration()
    assert not [name for name in accounts if "loan" in name]
    assert not [a for a in accounts.values() if a.keys() & {"imports", "exports"}]
    (user,) = [
        user["permissions"]
        for user in accounts["BUS_blue"]["users"]
        if "_INBOX_loan-red.>" in user["permissions"]["subscribe"]["allow"]
    ]
    assert not [s for s in json.dumps(user).split('"') if s.startswith("redp")]
    sent = {s for s in user["publish"]["allow"] if not s.startswith("_INBOX_")}
    assert sent == {
        "bluep.v1.ctl.cancel.loan-red", "bluep.v1.ctl.ping.loan-red.*",
        "bluep.v1.evt.catalog.loan-red",
    }  # fmt: skip
    replies = {s for s in user["publish"]["allow"] if s.startswith("_INBOX_")}
    assert not [s for s in replies if ".loan-red." not in s and ".$SRV." not in s]
    received = {s for s in user["subscribe"]["allow"] if not s.startswith("$SRV.")}
    assert received == {
        "_INBOX_loan-red.>", "bluep.v1.at.*.tool.crm.*", "bluep.v1.catalog.loan-red.*",
        "bluep.v1.ctl.cancel.loan-red", "bluep.v1.ctl.ping.loan-red.*", "bluep.v1.tool.crm.*",
    }  # fmt: skip


def test_keys_of_both_sides_are_replaced_while_it_is_used(lent: Tenants) -> None:
    """The lender's user on the borrower's bus, and the key that signs the borrower's callers. While
    the only edge of the lender connects with its new key, a call may be `unavailable`."""

    def answered(number: str) -> bool:
        result = lent.call("find", {"name": number})["result"]
        if result.get("isError"):
            assert result["structuredContent"]["error"]["code"] == "unavailable", result
        return bool(result["structuredContent"] == {"name": number})

    both = [text for name in ("loan-red", "actor") for text in ("--rotate", name)]
    before = lent.secret("blue", "loan-red", "NATS_NKEY_SEED")
    for arguments in (both, ["--retire" if text == "--rotate" else text for text in both]):
        lent.configure("--tenant", "blue", *arguments)
        for number in range(30):
            eventually(partial(answered, str(number)))
            time.sleep(0.1)
    assert before not in lent.secret("red", "edge", "LOANS")


async def test_a_withdrawn_toolset_is_gone_at_once(lent: Tenants) -> None:
    """No process is restarted. Its tools are listed no more, and a call fails with a code; a later
    run removes the lender's user, and one at once does not. Red's own clients notice nothing.
    """
    lent.configure("--tenant", "red", "--withdraw", "crm", "--to", "blue")
    lent.configure()
    await until(lambda: not lent.tools() and not LENT & lent.tools(endpoint=""))
    answer = lent.call("find", endpoint="")
    assert answer["error"]["code"] == -32602
    edge = await lent.member("blue", "edge", signs=True)
    with pytest.raises(Fault) as raised:
        await edge.request(
            edge.subjects.tool("crm", "find"), ToolCall(tool="find"), ToolReply,
            service="loan-red", timeout_s=5, actor=Actor(subject="alice"),
        )  # fmt: skip
    assert raised.value.code == ErrorCode.UNAVAILABLE
    await until(lambda: silent(edge))
    await edge.close()
    assert lent.call("find", tenant="red")["result"]["structuredContent"] == {"name": "Ann"}
    assert "loan-red" in json.dumps(lent.configuration()[1])
    path = lent.out / "nats" / "loans.json"
    path.write_text(re.sub(r'("withdrawn_s":{"crm":)[^}]+', r"\g<1>1", path.read_text()))
    lent.configure()
    assert "loan-red" not in json.dumps(lent.configuration()[1])


async def silent(edge: Bus) -> bool:
    """Whether the lender's worker has left."""
    return "loan-red" not in [worker.service for worker in await edge.workers(quiet_s=0.3)]
