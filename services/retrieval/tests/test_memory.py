"""Notes of callers and teams: found, renewed, limited, and nobody else's."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from msgspec import Raw, to_builtins

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, Fault, ToolCall, ToolReply, encode
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_contracts.resources import ResourceListReply, ResourceListRequest
from searchbus_contracts.retrieval import (
    Document,
    GetRequest,
    ListReply,
    ListRequest,
    SearchReply,
    SearchRequest,
)
from searchbus_retrieval import memory
from searchbus_retrieval.access import MEMORY
from searchbus_retrieval.service import build_worker

from .conftest import document

ANN = Actor(subject="ann", roles=("analysts",))
BOB = Actor(subject="bob", roles=("analysts",))
EVE = Actor(subject="eve", roles=("others",))
FACT = "The user wants prices in Swiss francs."


@pytest.fixture
async def bus(library):
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(library))
    return broker.connect()


@pytest.fixture
def call(bus):
    async def call(tool: str, actor: Actor = ANN, **arguments):
        reply = await bus.request(
            bus.subjects.tool("memory", tool), ToolCall(tool=tool, arguments=Raw(encode(arguments))),
            ToolReply, service="retrieval", timeout_s=30, actor=actor,
        )  # fmt: skip
        return to_builtins(reply.structured)

    return call


async def test_a_note_is_found_and_names_its_source_and_time(call):
    """By what it says; a question without an answer finds it too, with a small probability."""
    kept = await call("remember", text=f"  {FACT}\n", source="chat of 3 May")
    assert kept["is_new"]
    await call("remember", text="Backups run on Sunday night.")
    (first, *_) = (await call("recall", query="prices in which currency, francs?"))["notes"]
    assert {key: first[key] for key in ("id", "text", "at", "source")} == {
        "id": kept["id"], "text": FACT, "at": kept["at"], "source": "chat of 3 May",
    }  # fmt: skip
    assert 0 < first["score"] <= 1
    assert 0 <= first["relevance"] <= 1


async def test_a_note_that_is_known_only_gets_a_new_time(call):
    """So that a repeated call is safe, and nothing is kept twice."""
    first = await call("remember", text=FACT)
    again = await call("remember", text=FACT)
    assert (again["id"], again["is_new"]) == (first["id"], False)
    assert (await call("list_notes"))["total"] == 1


@pytest.mark.parametrize("team", [None, "analysts"])
async def test_notes_are_their_owners_alone(call, team):
    """Another caller neither finds, counts nor deletes them."""
    kept = await call("remember", text=FACT, team=team)
    stranger = BOB if team is None else EVE
    assert (await call("recall", stranger, query=FACT))["notes"] == []
    assert await call("list_notes", stranger) == {"notes": [], "total": 0}
    assert await call("forget", stranger, ids=[kept["id"]]) == {"deleted": 0}
    assert await call("forget", stranger, everything=True) == {"deleted": 0}
    assert (await call("list_notes", team=team))["total"] == 1


async def test_a_team_shares_notes_apart_from_those_of_its_members(call):
    """Who lacks the role is told so, whether the team has notes or not."""
    await call("remember", text=FACT, team="analysts")
    (note,) = (await call("recall", BOB, query="francs", team="ROLE_analysts"))["notes"]
    assert note["text"] == FACT
    assert (await call("recall", BOB, query="francs"))["notes"] == []
    for tool, arguments in (
        ("remember", {"text": FACT}), ("recall", {"query": "francs"}), ("list_notes", {}),
        ("forget", {"everything": True}),
    ):  # fmt: skip
        with pytest.raises(Fault, match="you do not have the role 'analysts'"):
            await call(tool, EVE, team="analysts", **arguments)


async def test_a_caller_named_like_a_team_has_other_notes(call):
    """The owner's kind is a part of its name."""
    await call("remember", text=FACT, team="analysts")
    twin = Actor(subject="team:analysts")
    assert (await call("recall", twin, query="francs"))["notes"] == []


async def test_no_other_door_leads_to_notes(call, bus, library):
    """Searches, lists, documents and resources of others have none of them; a backup has."""
    await library.store("open", document("a", f"Public: {FACT}"))
    kept = await call("remember", text=FACT)

    async def ask(method: str, request, reply, actor=EVE):
        subject = bus.subjects.endpoint("retrieval", method)
        return await bus.request(
            subject, request, reply, service="retrieval", timeout_s=30, actor=actor
        )

    operator = Actor(subject="op", roles=(OPERATOR_ROLE,))
    for actor in (EVE, ANN, operator):
        found = await ask("search", SearchRequest(query=FACT), SearchReply, actor)
        assert {hit.collection for hit in found.hits} == {"open"}
        with pytest.raises(Fault, match="no document"):
            await ask("get", GetRequest(document_id=kept["id"]), Document, actor)
        with pytest.raises(Fault, match="no document"):
            request = GetRequest(document_id=kept["id"], collection=MEMORY)
            await ask("get", request, Document, actor)
        listed = await bus.request(
            bus.subjects.resource("documents", "list"), ResourceListRequest(limit=50),
            ResourceListReply, service="retrieval", timeout_s=30, actor=actor,
        )  # fmt: skip
        assert [entry.uri.split("/")[2] for entry in listed.resources] == ["open"]
    for request in (ListRequest(collection=MEMORY), ListRequest()):
        if request.collection is None:
            names = {c.name for c in (await ask("list", request, ListReply)).collections}
            assert names == {"open"}
        else:
            with pytest.raises(Fault, match="no collection"):
                await ask("list", request, ListReply)
    names = {c.name for c in (await ask("list", ListRequest(), ListReply, operator)).collections}
    assert names == {"open", MEMORY}
    with pytest.raises(Fault, match="no collection"):
        await ask("search", SearchRequest(query=FACT, collections=(MEMORY,)), SearchReply)


async def test_pages_have_every_note_once(call):
    """They are the export."""
    texts = {f"Fact number {number}." for number in range(7)}
    for text in texts:
        await call("remember", text=text)
    seen, cursor = [], None
    while True:
        page = await call("list_notes", limit=3, cursor=cursor)
        assert page["total"] == 7
        seen += [note["text"] for note in page["notes"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert sorted(seen) == sorted(texts)


@pytest.mark.parametrize("cursor", ["x", "0", "5f0e", "\u0661", "-1"])
async def test_unknown_cursor_is_refused(call, bus, library, cursor):
    """By both lists that take one from callers."""
    await call("remember", text=FACT)
    with pytest.raises(Fault, match="Unknown cursor") as caught:
        await call("list_notes", cursor=cursor)
    assert caught.value.code == "invalid_argument"
    await library.store("c", document("w", "Whales sing."))
    with pytest.raises(Fault, match="Unknown cursor"):
        await bus.request(
            bus.subjects.endpoint("retrieval", "list"), ListRequest(collection="c", cursor=cursor),
            ListReply, service="retrieval", timeout_s=30, actor=ANN,
        )  # fmt: skip


async def test_forgetting_is_by_ids_or_everything(call):
    """Both or neither is refused; an unknown id is no error."""
    kept = [await call("remember", text=f"Fact number {number}.") for number in range(3)]
    for wrong in ({}, {"ids": [kept[0]["id"]], "everything": True}):
        with pytest.raises(Fault, match="ids: give the ids"):
            await call("forget", **wrong)
    assert await call("forget", ids=[kept[0]["id"], "unknown"]) == {"deleted": 1}
    assert await call("forget", everything=True) == {"deleted": 2}
    assert await call("forget", everything=True) == {"deleted": 0}
    assert (await call("recall", query="Fact"))["notes"] == []


async def test_a_newer_note_comes_first_among_equals(call, library, monkeypatch):
    """A note of a year ago loses to one of today that matches alike."""
    await call("remember", text="The office is in Basel now.")
    monkeypatch.setattr(memory, "datetime", LastYear)
    await call("remember", text="The office is in Chur now.")
    monkeypatch.undo()
    notes = (await call("recall", query="where is the office now"))["notes"]
    assert [note["text"].split()[4] for note in notes] == ["Basel", "Chur"]
    recent = await call("recall", query="where is the office now", since="2025-06-01")
    assert [note["text"].split()[4] for note in recent["notes"]] == ["Basel"]


class LastYear(memory.datetime):
    """A clock that is far behind."""

    @classmethod
    def now(cls, tz=None):
        return super().now(tz).replace(year=2020)


async def test_a_full_memory_says_what_to_do(call, monkeypatch):
    """A known note is renewed all the same, and others have their own limit."""
    monkeypatch.setattr(memory, "MAX_NOTES", 2)
    for number in range(2):
        await call("remember", text=f"Fact number {number}.")
    with pytest.raises(Fault, match="2 notes, which is the limit"):
        await call("remember", text="One more.")
    assert not (await call("remember", text="Fact number 1."))["is_new"]
    assert (await call("remember", BOB, text="One more."))["is_new"]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("remember", {"text": " \n"}, "text is empty"),
        ("remember", {"text": "x" * 2001}, "text"),
        ("recall", {"query": "a", "since": "last May"}, "since: needs an ISO date"),
        ("recall", {"query": "a", "limit": 0}, "limit"),
        ("forget", {"ids": ["x" * 65]}, "ids"),
    ],
)
async def test_wrong_arguments_are_named(call, tool, arguments, message):
    """Also where there is no note yet."""
    with pytest.raises(Fault, match=message):
        await call(tool, **arguments)


REMEMBERED = textwrap.dedent("""
    import asyncio, sys
    from msgspec import Raw, to_builtins
    from searchbus_bus import MemoryBroker
    from searchbus_contracts import Actor, ToolCall, ToolReply, encode
    from searchbus_retrieval.library import Library
    from searchbus_retrieval.service import build_worker
    from searchbus_vectors import load_embedder, open_store
    async def main():
        store = await open_store(folder=sys.argv[1])
        library = await Library.open(store, await load_embedder("hash"))
        broker = MemoryBroker()
        await broker.connect().serve(build_worker(library))
        bus = broker.connect()
        async def call(tool, **arguments):
            reply = await bus.request(
                bus.subjects.tool("memory", tool),
                ToolCall(tool=tool, arguments=Raw(encode(arguments))), ToolReply,
                service="retrieval", timeout_s=60, actor=Actor(subject="ann"))
            return to_builtins(reply.structured)
        for _ in range(300):
            note = await call("remember", text="x")
            assert await call("forget", ids=[note["id"]]) == {"deleted": 1}
        await store.close()
    asyncio.run(main())
""")


def test_a_note_may_be_kept_and_forgotten_again_and_again(tmp_path):
    """In a process of its own: one that stands still with Python's lock is ended by its parent."""
    subprocess.run([sys.executable, "-c", REMEMBERED, tmp_path], check=True, timeout=120)
