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
from pydantic import SecretStr, ValidationError

from searchbus_bus import (
    ActorSigner,
    Bus,
    Call,
    Directory,
    MemoryBroker,
    Toolset,
    Worker,
    new_actor_keys,
    tool,
)
from searchbus_contracts import (
    Actor,
    CatalogEvent,
    ErrorCode,
    Fault,
    ToolCall,
    ToolReply,
    decode,
    encode,
)
from searchbus_contracts.tools import InputRequired
from searchbus_edge import lending
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings
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

    @tool(title="ask")
    async def ask(self, call: Call, arguments: Nothing) -> ToolReply:
        """Asks the client."""
        return ToolReply(input_required=InputRequired(state="mine"))


@dataclass
class Borrower:
    """The bus of the tenant that borrows, as its edge uses it."""

    bus: Bus
    directory: Directory
    people: People
    dictionary: Dictionary
    lending: lending.Lending

    async def call(
        self, toolset: str, name: str, *, actor: Actor | None = None, **arguments: Any
    ) -> ToolReply:
        return await self.bus.request(
            self.bus.subjects.tool(toolset, name),
            ToolCall(tool=name, arguments=Raw(encode(arguments))),
            ToolReply,
            service="loan-red",
            timeout_s=60,
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
    for served in (worker, dictionary_worker(dictionary), colliding_worker()):
        await here.connect(name=served.service).serve(served)
    bus = there.connect(name="edge", prefix="b", signer=ActorSigner(KEYS[0]))
    directory = Directory(bus)
    settings = EdgeSettings(loans=SecretStr(LOAN.line), **getattr(request, "param", {}))
    async with open_edge(here.connect(name="edge"), settings) as edge:
        edge.lending.start()
        await directory.start()
        await until(lambda: directory.catalogs)
        yield Borrower(bus, directory, people, dictionary, edge.lending)
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
    } | {("me", "who"), ("me", "ask")}
    (catalog,) = borrower.directory.catalogs
    assert not (catalog.prompts or catalog.resources or catalog.resource_templates)
    assert borrower.directory.listing.owners == {"words": "loan-red", "me": "loan-red"}


async def test_a_call_is_of_a_caller_of_the_tenant_without_roles(borrower):
    """Whatever the borrower's edge says of the caller's name and roles."""
    reply = await borrower.call("me", "who", actor=Actor(subject="root", roles=("*", "NOBODY")))
    assert reply.content[0].text == "tenant:blue/root"
    assert [call.actor for call in borrower.people.calls] == [Actor(subject="tenant:blue/root")]
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
    outcomes = []
    for name in ("alice", "bob", "carol"):
        reply = await borrower.call("me", "who", actor=Actor(subject=name))
        outcomes.append((reply.is_error, (reply.structured or {}).get("error", {}).get("code")))
    assert outcomes == [(False, None), (False, None), (True, "rate_limited")]
    said = "tenant:blue/{} called who: {}".format
    wanted = [said("alice", "ok"), said("bob", "ok"), said("carol", "rate_limited")]
    await until(lambda: all(text in caplog.text for text in wanted), message=lambda: caplog.text)


async def test_failures_arrive_as_the_lender_shows_them(borrower):
    """A typed one with its code and the time to wait, a crash without its text."""
    reply = await borrower.call("words", "fail")
    assert reply.is_error
    assert reply.structured["error"]["code"] == "rate_limited"
    assert reply.structured["error"]["retry_after_ms"] == 1500
    reply = await borrower.call("words", "look_up", word=5, count="many")
    assert reply.structured["error"]["code"] == "invalid_argument"
    with pytest.raises(Fault, match="asks its client for input"):
        await borrower.call("me", "ask")
    with pytest.raises(Fault) as raised:
        await borrower.call("words", "crash")
    assert raised.value.code == ErrorCode.INTERNAL
    assert "canary" not in raised.value.failure.message


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


@pytest.mark.parametrize("borrower", [{"body_limit_bytes": 600_000}], indirect=True)
async def test_arguments_have_the_limits_of_a_request_at_the_edge(borrower):
    """In one message, and in parts, of which none is fetched."""
    for size, said in ((300_000, "over 262144 bytes"), (700_000, "over 600000 bytes")):
        with pytest.raises(Fault) as raised:
            await borrower.call("words", "look_up", word="x" * size)
        assert raised.value.code == ErrorCode.INVALID_ARGUMENT
        assert said in raised.value.failure.message


def test_a_toolset_of_the_edge_itself_is_not_lent():
    """Its tools call those of all others."""
    for toolset in ("lazy", "bulk", "connector"):
        line = replace(LOAN, toolsets={"words": toolset}).line
        with pytest.raises(ValidationError, match="of the edge itself"):
            EdgeSettings(loans=SecretStr(line))
    assert EdgeSettings(loans=SecretStr(NONE)).loans is not None
