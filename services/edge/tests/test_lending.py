"""Toolsets that the edge lends to other tenants; their buses are brokers in memory here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr, ValidationError

from searchbus_bus import (
    ActorSigner,
    Bus,
    Call,
    Directory,
    MemoryBroker,
    Serving,
    Toolset,
    Worker,
    new_actor_keys,
    spend,
    tool,
)
from searchbus_bus import telemetry as bus_telemetry
from searchbus_bus.client.parts import LargeReply
from searchbus_bus.client.transit import TransitFullError
from searchbus_bus.worker.handling import Handling
from searchbus_contracts import (
    Actor,
    CatalogEvent,
    ErrorCode,
    Fault,
    ToolCall,
    ToolDescriptor,
    ToolReply,
    decode,
    encode,
)
from searchbus_contracts.tools import InputRequired
from searchbus_edge import lending
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.catalog.registry import Registry
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools import telemetry
from searchbus_edge.tools.call import ToolCalls
from searchbus_edge.tools.resolve import Resolver, Target
from searchbus_runtime import Secret
from searchbus_runtime.loans import NONE, Loan
from searchbus_testing import until

from .conftest import Dictionary, Nothing, colliding_worker, dictionary_worker

KEYS = new_actor_keys()
LOAN = Loan(
    borrower="blue", service="loan-red", prefix="b", inbox_prefix="_INBOX", seeds=("SU" + "A" * 56,),
    public_keys=(KEYS[1],), toolsets={"words": "dictionary", "me": "people"},
)  # fmt: skip


class People(Toolset, name="people"):
    """Shows who calls, and asks for input."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    @tool(title="who")
    async def who(self, call: Call, arguments: Nothing) -> str:
        """Who calls."""
        self.calls.append(call)
        return call.actor.subject

    @tool(title="sign", client_capabilities=("elicitation",))
    async def sign(self, call: Call, arguments: Nothing) -> str:
        """Needs a client that asks its user."""
        return ""

    @tool(title="spend", costly=True)
    async def spend(self, call: Call, arguments: Nothing) -> str:
        """Fails and costs."""
        spend(3)
        raise Fault(ErrorCode.UPSTREAM_FAILED, "The provider failed. Try again.")

    @tool(title="book")
    async def book(self, call: Call, arguments: Nothing) -> str:
        """Large."""
        return "b" * 600_000

    @tool(title="ask")
    async def ask(self, call: Call, arguments: Nothing) -> ToolReply:
        """Asks the client."""
        return ToolReply(input_required=InputRequired(state="mine"))


async def taken(call: Call, request: ToolCall) -> ToolReply:
    return ToolReply(structured={"bytes": len(bytes(request.arguments))})


@dataclass
class Borrower:
    """The bus of the tenant that borrows, as its edge uses it."""

    bus: Bus
    directory: Directory
    people: People
    dictionary: Dictionary
    lending: lending.Lending
    lender: Bus
    serving: Serving
    """The worker of the people, on the lender's bus."""

    async def call(
        self,
        toolset: str,
        name: str,
        *,
        actor: Actor | None = None,
        timeout_s: float = 60,
        **arguments: Any,
    ) -> ToolReply:
        return await self.bus.request(
            self.bus.subjects.tool(toolset, name),
            ToolCall(tool=name, arguments=Raw(encode(arguments))),
            ToolReply,
            service="loan-red",
            timeout_s=timeout_s,
            actor=actor or Actor(subject="alice"),
        )

    def tools(self) -> set[tuple[str, str]]:
        return {(t.toolset, t.name) for c in self.directory.catalogs for t in c.tools}


@pytest.fixture
async def borrower(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Borrower]:
    """An edge that lends, and the borrower's bus; further settings by `indirect`."""
    here, there = MemoryBroker(), MemoryBroker()

    async def connect(url: str, *, name: str, **options: Any) -> Bus:
        return there.connect(name=name, prefix=options["prefix"], verifier=options["verifier"])

    monkeypatch.setattr(lending, "connect", connect)
    people, dictionary = People(), Dictionary()
    worker = Worker("people")
    worker.add(people)
    serving = await here.connect(name="people").serve(worker)
    for served in (dictionary_worker(dictionary), colliding_worker()):
        await here.connect(name=served.service).serve(served)
    bus = there.connect(name="edge", prefix="b", signer=ActorSigner(KEYS[0]))
    directory = Directory(bus)
    settings = EdgeSettings(loans=SecretStr(LOAN.line), **getattr(request, "param", {}))
    lender = here.connect(name="edge")
    async with open_edge(lender, settings) as edge:
        edge.lending.start()
        await directory.start()
        await until(lambda: directory.catalogs)
        yield Borrower(bus, directory, people, dictionary, edge.lending, lender, serving)
        await directory.close()


async def test_an_edge_that_starts_lends_once_it_knows_the_services(monkeypatch):
    """Its first catalogue has all toolsets: beside other edges, it is the one that counts."""
    here, there, connected = MemoryBroker(), MemoryBroker(), asyncio.Event()

    async def connect(url: str, *, name: str, **options: Any) -> Bus:
        connected.set()
        return there.connect(name=name, prefix=options["prefix"])

    monkeypatch.setattr(lending, "connect", connect)
    directory = Directory(there.connect(name="edge", prefix="b"))
    events: list[str] = []

    async def note(subject: str, data: bytes) -> None:
        events.append(decode(data, CatalogEvent).event)

    await there.connect(name="web", prefix="b").subscribe("b.v1.evt.catalog.*", note)
    await directory.start()
    await here.connect(name="dictionary").serve(dictionary_worker(Dictionary()))
    settings = EdgeSettings(loans=SecretStr(LOAN.line))
    async with open_edge(here.connect(name="edge"), settings) as edge:
        edge.lending.start()
        await connected.wait()
        await until(lambda: edge.registry.offers("dictionary"))
        worker = Worker("people")
        worker.add(People())
        await here.connect(name="people").serve(worker)
        await until(lambda: directory.listing.owners.keys() == {"words", "me"})
        assert events == ["up"]
    await directory.close()


async def test_only_the_lent_toolsets_are_there(borrower):
    """By the borrower's names for them, without tools that need a role; no prompt, no resource."""
    assert borrower.tools() == {
        ("words", name)
        for name in ("look_up", "list_words", "say", "fail", "crash", "slow", "brief", "steps")
    } | {("me", "who"), ("me", "ask"), ("me", "book"), ("me", "spend")}
    (catalog,) = borrower.directory.catalogs
    assert not (catalog.prompts or catalog.resources or catalog.resource_templates)
    assert borrower.directory.listing.owners == {"words": "loan-red", "me": "loan-red"}


async def test_every_call_is_of_the_tenant_without_roles(borrower):
    """Whatever the borrower's edge says of the caller's name and roles: for workers, too, all of a
    tenant is one caller, since they share by callers what they have."""
    for name in ("root", "another"):
        reply = await borrower.call("me", "who", actor=Actor(subject=name, roles=("*", "NOBODY")))
        assert reply.content[0].text == "tenant:blue"
    assert [call.actor for call in borrower.people.calls] == [Actor(subject="tenant:blue")] * 2
    for name in ("secret", "odd", "find_tools"):
        with pytest.raises(Fault) as raised:
            await borrower.call("words", name, actor=Actor(subject="root", roles=("*",)))
        assert raised.value.code == ErrorCode.NOT_FOUND


async def test_a_caller_whom_the_borrower_did_not_sign_is_refused(borrower):
    """No process of the borrower invents a caller, as on every secured bus."""
    stranger = borrower.bus._requester._signer = ActorSigner(new_actor_keys()[0])
    assert stranger is not None
    with pytest.raises(Fault) as raised:
        await borrower.call("me", "who")
    assert raised.value.code == ErrorCode.FORBIDDEN
    assert borrower.people.calls == []


async def test_a_retired_key_of_the_borrower_is_accepted_for_a_while(borrower, tmp_path):
    """Its edges read their new one at another moment."""
    path, newer = tmp_path / "loans", new_actor_keys()
    path.write_text(replace(LOAN, public_keys=(newer[1],)).line)
    borrower.lending._secret = Secret("loans", (LOAN.line,), path, check=Loan.parse)
    for private in (KEYS[0], newer[0]):
        borrower.bus._requester._signer = ActorSigner(private)
        assert not (await borrower.call("me", "who")).is_error


@pytest.mark.parametrize("borrower", [{"daily_budgets": {"caller_calls": 2}}], indirect=True)
async def test_all_callers_of_a_tenant_share_its_limits(borrower, caplog):
    """They are one caller for the lender, who did not admit them; the audit log has each."""
    caplog.set_level(logging.INFO, "searchbus.audit")
    for name in ("alice", "bob"):
        await borrower.call("me", "who", actor=Actor(subject=name))
    with pytest.raises(Fault) as raised:
        await borrower.call("me", "who", actor=Actor(subject="carol"))
    assert raised.value.code == ErrorCode.RATE_LIMITED
    said = "tenant:blue/{} called who: {}".format
    wanted = [said("alice", "ok"), said("bob", "ok"), said("carol", "rate_limited")]
    await until(lambda: all(text in caplog.text for text in wanted), message=lambda: caplog.text)


@pytest.mark.parametrize("borrower", [{"abuse_rate_per_s": 0.001, "abuse_burst": 2}], indirect=True)
async def test_the_limit_of_requests_applies_before_a_message_is_looked_at(borrower):
    """To all of the tenant together, its catalogues too; signatures that are checked, and wrong
    arguments, would cost the edge more than calls."""
    borrower.bus._requester._signer = ActorSigner(new_actor_keys()[0])
    codes = []
    while "rate_limited" not in codes:
        assert len(codes) < 3
        with pytest.raises(Fault) as raised:
            await borrower.call("words", "look_up", actor=Actor(subject=f"c{len(codes)}"), word=5)
        codes.append(raised.value.code)
    assert set(codes[:-1]) <= {"forbidden"}


async def test_failures_arrive_as_those_of_a_worker(borrower):
    """A typed one with its code, the time to wait and its cost, a crash without its text."""
    with pytest.raises(Fault) as raised:
        await borrower.call("words", "fail")
    failure = raised.value.failure
    assert (failure.code, failure.retry_after_ms) == ("rate_limited", 1500)
    with pytest.raises(Fault) as raised:
        await borrower.call("words", "look_up", word=5, count="many")
    assert raised.value.code == ErrorCode.INVALID_ARGUMENT
    with pytest.raises(Fault) as raised:
        await borrower.call("me", "spend")
    assert raised.value.failure.credits == 3
    with pytest.raises(Fault, match="asks its client for input"):
        await borrower.call("me", "ask")
    with pytest.raises(Fault) as raised:
        await borrower.call("words", "crash")
    assert raised.value.code == ErrorCode.INTERNAL
    assert "canary" not in raised.value.failure.message


async def test_a_call_whose_answer_was_too_large_is_not_sent_again(borrower, monkeypatch):
    """Its tool has done its work: the failure comes as a reply, which the borrower's edge only
    shows."""

    async def refused(*arguments: Any) -> Any:
        raise TransitFullError(2_000_000)

    monkeypatch.setattr(ToolCalls, "_ask", refused)
    reply = await borrower.call("me", "who")
    assert reply.structured["error"]["code"] == ErrorCode.OVERLOADED


async def test_an_unknown_tool_names_nothing_of_the_lender(borrower, monkeypatch):
    """Not even services that the lender's edge has not seen yet."""
    monkeypatch.setattr(Registry, "unseen", ("payroll",))

    def unknown(resolver: Resolver, target: Target, actor: Actor) -> Any:
        return require(resolver, replace(target, listed=None), actor)

    require = Resolver.require
    monkeypatch.setattr(Resolver, "require", unknown)
    with pytest.raises(Fault) as raised:
        await borrower.call("me", "who")
    assert raised.value.code == ErrorCode.NOT_FOUND
    assert "payroll" not in raised.value.failure.message


@pytest.mark.parametrize(
    ("borrower", "trusted"),
    [({"trust_traces": t}, t) for t in (True, False)],
    indirect=["borrower"],
)
async def test_the_borrower_decides_no_trace_of_the_lender(borrower, monkeypatch, trusted, caplog):
    """Its context is linked, as that of a client, unless such are trusted: neither the id in the
    audit log nor whether a call is recorded is its choice."""
    caplog.set_level(logging.INFO, "searchbus.audit")
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for module in (telemetry, bus_telemetry):
        monkeypatch.setattr(module, "_tracer", lambda: provider.get_tracer("test"))
    chosen = "1" * 32
    unsampled = bus_telemetry.extract({"traceparent": f"00-{chosen}-{'2' * 16}-00"})
    monkeypatch.setattr(bus_telemetry, "extract", lambda headers: unsampled)
    await borrower.call("me", "who")
    calls = [s for s in exporter.get_finished_spans() if s.attributes.get("mcp.method.name")]
    assert len(calls) == (0 if trusted else 1)
    for span in calls:
        assert span.parent is None
        assert [format(link.context.trace_id, "032x") for link in span.links] == [chosen]

    def audited() -> list[str]:
        return [str(r.__dict__["lines"]) for r in caplog.records if r.name == "searchbus.audit"]

    await until(audited)
    assert (chosen in audited()[0]) is trusted


async def test_results_are_marked_as_texts_of_others(borrower):
    """For the borrower's clients they are."""
    assert all(tool.untrusted for c in borrower.directory.catalogs for tool in c.tools)


async def test_structured_results_progress_and_cancellation_pass_through(borrower):
    """As between the edge and its own workers."""
    reply = await borrower.call("words", "look_up", word="bus")
    assert (reply.structured, reply.content) == ({"word": "bus", "sense": "é ✓"}, ())
    events: list[Any] = []
    await borrower.bus.request(
        borrower.bus.subjects.tool("words", "steps"), ToolCall(tool="steps"), ToolReply,
        service="loan-red", timeout_s=60, actor=Actor(subject="alice"), on_event=events.append,
    )  # fmt: skip
    assert [event.progress for event in events] == [1, 2, 3]
    call = asyncio.create_task(borrower.call("words", "slow"))
    await until(lambda: borrower.dictionary.started)
    call.cancel()
    await until(lambda: borrower.dictionary.cancelled)


async def test_a_lender_that_stops_answers_the_calls_that_it_has(borrower):
    """Those that take too long with `unavailable`, and their work ends."""
    call = asyncio.create_task(borrower.call("words", "slow"))
    await until(lambda: borrower.dictionary.started)
    await borrower.lending.drain(0.05)
    with pytest.raises(Fault) as raised:
        await call
    assert raised.value.code == ErrorCode.UNAVAILABLE
    await until(lambda: borrower.dictionary.cancelled)
    assert await borrower.bus.workers() == []


async def test_arguments_have_the_limits_of_a_request_at_the_edge(borrower, monkeypatch):
    """In one message, and in parts, of which none is fetched."""
    monkeypatch.delattr(Handling, "_fetch")
    for size in (300_000, 700_000):
        with pytest.raises(Fault) as raised:
            await borrower.call("words", "look_up", word="x" * size)
        assert raised.value.code == ErrorCode.INVALID_ARGUMENT
        assert "over 262144 bytes" in raised.value.failure.message


@pytest.mark.parametrize("borrower", [{"body_limit_bytes": 800_000}], indirect=True)
async def test_parts_are_fetched_where_an_offered_tool_takes_so_much(borrower):
    """Up to the limit of the edge."""
    upload = ToolDescriptor(
        name="upload", toolset="people", description="Takes much.", max_request_bytes=900_000,
        input_schema={"type": "object"},
    )  # fmt: skip
    borrower.serving.worker.add_tool(upload, taken)
    await borrower.serving.refresh()
    await until(lambda: ("me", "upload") in borrower.tools())
    reply = await borrower.call("me", "upload", word="x" * 700_000)
    assert reply.structured == {"bytes": 700_011}
    with pytest.raises(Fault, match="over 800000 bytes"):
        await borrower.call("me", "upload", word="x" * 900_000)


async def test_an_answer_counts_until_the_borrower_has_taken_it(borrower, monkeypatch):
    """It is in memory for so long. Here a caller takes none of it, and leaves."""
    announced = asyncio.Event()
    credit = LargeReply.new_credit

    def new_credit(reply: LargeReply) -> int:
        if reply._caller != "alice":
            return credit(reply)
        announced.set()
        return 0

    monkeypatch.setattr(LargeReply, "new_credit", new_credit)
    call = asyncio.create_task(borrower.call("me", "book"))
    await announced.wait()
    assert borrower.lender.transit.used_bytes > 600_000
    call.cancel()
    await until(lambda: borrower.lender.transit.used_bytes == 0)


async def test_a_borrower_gives_a_call_no_more_time_than_the_edge(borrower, monkeypatch):
    """Until then it could keep a slot, and an answer that it does not take."""
    given: list[Any] = []
    call = borrower.lending._calls.call
    monkeypatch.setattr(
        borrower.lending._calls, "call", lambda request: given.append(request) or call(request)
    )
    await borrower.call("me", "who", timeout_s=86_400)
    assert given[0].timeout_s <= EdgeSettings().call_timeout_cap_s


def test_a_toolset_of_the_edge_itself_is_not_lent():
    """Its tools call those of all others."""
    for toolset in ("lazy", "bulk", "connector"):
        line = replace(LOAN, toolsets={"words": toolset}).line
        with pytest.raises(ValidationError, match="of the edge itself"):
            EdgeSettings(loans=SecretStr(line))
    assert EdgeSettings(loans=SecretStr(NONE)).loans is not None
