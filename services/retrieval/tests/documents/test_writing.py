"""A document is stored completely or not at all."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id, revision_of
from searchbus_retrieval.documents.writing import embedded_text
from searchbus_retrieval.library import Library
from searchbus_testing import until
from searchbus_vectors import Equals, StoreUnavailableError, open_store

from ..conftest import document


async def test_refusals_say_why(library):
    """A document that cannot be stored is refused with the reason."""
    good = document("w", "Whales sing.")
    odd = msgspec.structs.replace(good, metadata={"no spaces": 1})
    assert "metadata field" in (await library.store("c", odd)).reason
    outside = msgspec.structs.replace(good, text="short")
    assert "outside of the text" in (await library.store("c", outside)).reason
    huge = msgspec.structs.replace(good, text="x" * (17 * 1024 * 1024))
    assert "16 MiB" in (await library.store("c", huge)).reason


@pytest.mark.parametrize("step", range(1, 6))
@pytest.mark.parametrize("existing", [False, True])
async def test_crash_between_any_two_steps_leaves_no_half_document(
    library, embedder, monkeypatch, step, existing
):
    """After a crash and repair the document is as before or as after, never in between."""
    old, new = "Whales sing in the old sea. " * 100, "Dolphins whistle in the new sea. " * 100
    if existing:
        await library.store("c", document("w", old))
    else:
        await library.store("c", document("other", "Something else."))
    store = library._store
    calls = 0

    class Crash(Exception):
        pass

    def crashing(method):
        async def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls > step:
                raise Crash
            return await method(*arguments, **options)

        return call

    for name in ("upsert", "delete", "set_payload"):
        monkeypatch.setattr(store, name, crashing(getattr(store, name)))
    try:
        await library.store("c", document("w", new))
        crashed = False
    except Crash:
        crashed = True
    monkeypatch.undo()
    reopened = await Library.open(store, embedder)
    texts = {h.text for h in await reopened.search("c", "sea animals sing whistle", limit=50)}
    texts.discard("Something else.")
    has_old, has_new = any("old sea" in t for t in texts), any("new sea" in t for t in texts)
    assert not (has_old and has_new)
    try:
        whole = (await reopened.get_from(["c"], document_id("c", "w"))).text
    except Fault:
        whole = None
    assert whole == (old if has_old else new if has_new else None)
    assert whole in ((old, new) if existing else (None, new))
    assert crashed or whole == new
    # Doing it again ends in the same state as an undisturbed run.
    await reopened.store("c", document("w", new))
    assert (await reopened.get_from(["c"], document_id("c", "w"))).text == new
    assert await store.count("c", Equals("live", False)) == 0


async def test_document_that_is_replaced_is_found_at_each_step(library, monkeypatch):
    """As it was, or as it is, and never as both."""
    old, new = "Whales sing in the old sea. " * 100, "Whales sing in the new sea. " * 100
    await library.store("c", document("other", "Something else."))
    await library.store("c", document("w", old))
    store, seen = library._store, []

    async def look() -> None:
        hits = await library.search("c", "whales sing", limit=50)
        texts = " ".join(hit.text for hit in hits)
        seen.append([text for text in ("old sea", "new sea") if text in texts])

    def watched(method):
        async def call(*arguments, **options):
            await method(*arguments, **options)
            await look()

        return call

    for name in ("upsert", "delete", "set_payload"):
        monkeypatch.setattr(store, name, watched(getattr(store, name)))
    await library.store("c", document("w", new))
    assert {len(found) for found in seen} == {1}
    assert len(seen) >= 6
    assert (seen[0], seen[-1]) == (["old sea"], ["new sea"])


async def test_document_that_is_replaced_before_it_is_read_is_found(library, monkeypatch):
    """Its passages that were found are gone: the search is made again."""
    await library.store("c", document("w", "Whales sing in the old sea."))
    store = library._store
    match = store.match

    async def late(*arguments, **options):
        found = await match(*arguments, **options)
        monkeypatch.setattr(store, "match", match)
        await library.store("c", document("w", "Whales sing in the new sea."))
        return found

    monkeypatch.setattr(store, "match", late)
    hits = await library.search("c", "whales sing")
    assert [hit.text for hit in hits] == ["Whales sing in the new sea."]


async def test_collection_that_is_replaced_before_it_is_read_is_found(library, monkeypatch):
    """What was found is in the collection that is no more."""
    await library.store("c", document("w", "Whales sing in the old sea."))
    await library.store("c~next", document("w", "Whales sing in the new sea."))
    store = library._store
    match = store.match

    async def late(*arguments, **options):
        found = await match(*arguments, **options)
        monkeypatch.setattr(store, "match", match)
        await library.end_rebuild("c")
        return found

    monkeypatch.setattr(store, "match", late)
    hits = await library.search("c", "whales sing")
    assert [hit.text for hit in hits] == ["Whales sing in the new sea."]
    assert "c~next" not in library._backgrounds._timers


async def test_request_that_is_cancelled_after_the_commit_is_finished(library, monkeypatch):
    """The client does not send the document again: its revision is stored."""
    store, reached, go_on = library._store, asyncio.Event(), asyncio.Event()
    set_payload = store.set_payload

    async def slow(*arguments, **options):
        reached.set()
        await go_on.wait()
        return await set_payload(*arguments, **options)

    monkeypatch.setattr(store, "set_payload", slow)
    storing = asyncio.create_task(library.store("c", document("w", "Whales sing.")))
    await reached.wait()
    storing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await storing
    go_on.set()

    async def found() -> bool:
        return bool(await library.search("c", "whales"))

    async with asyncio.timeout(60):
        while not await found():
            await asyncio.sleep(0.01)


async def test_commit_that_fails_after_its_caller_has_left_is_logged_and_counted(
    library, monkeypatch, caplog
):
    """Nobody receives the failure; the next start repairs the document."""
    reached, go_on, counted = asyncio.Event(), asyncio.Event(), []
    monkeypatch.setattr("searchbus_bus.telemetry.count_failed", counted.append)

    async def failing(*arguments, **options):
        reached.set()
        await go_on.wait()
        raise OSError("the disk is gone")

    monkeypatch.setattr(library._store, "set_payload", failing)
    storing = asyncio.create_task(library.store("c", document("w", "Whales sing.")))
    await reached.wait()
    storing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await storing
    assert counted == []
    go_on.set()
    await until(lambda: counted == ["commit"])
    assert "the disk is gone" in caplog.text


async def test_next_writer_waits_for_the_commit_of_a_caller_that_has_left(library, monkeypatch):
    """The commit would delete the next revision's passages as those of another revision."""
    store, reached, go_on = library._store, asyncio.Event(), asyncio.Event()
    delete = store.delete

    async def slow(*arguments, **options):
        if not reached.is_set():
            reached.set()
            await go_on.wait()
        return await delete(*arguments, **options)

    await library.store("c", document("w", "Whales are silent."))
    monkeypatch.setattr(store, "delete", slow)
    storing = asyncio.create_task(library.store("c", document("w", "Whales sing.")))
    await reached.wait()
    storing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await storing
    again = asyncio.create_task(library.store("c", document("w", "Whales sing again.")))
    await asyncio.wait([again], timeout=0.2)
    go_on.set()
    assert (await again).outcome == "replaced"
    assert [hit.text for hit in await library.search("c", "whales")] == ["Whales sing again."]
    assert await store.count("c", Equals("kind", "chunk")) == 1


async def test_concurrent_ingest_of_one_document_ends_with_one(library):
    """Racing writers of the same id leave exactly one revision."""
    texts = [f"Whales sing song number {i}. " * 80 for i in range(4)]
    await asyncio.gather(*(library.store("c", document("w", text)) for text in texts))
    hits = await library.search("c", "whales", limit=50)
    whole = (await library.get_from(["c"], document_id("c", "w"))).text
    assert whole in texts
    assert all(hit.text in whole for hit in hits)


async def test_replicas_that_store_one_document_at_once_lose_no_passage(
    store, embedder, monkeypatch
):
    """One deletes what the other has written so far: that is sent again, and not taken for whole."""
    one, other = await Library.open(store, embedder), await Library.open(store, embedder)
    new = document("w", "Whales sing in the sea. " * 100)
    commit = one._writer._commit

    async def late(*arguments):
        await other.store("c", document("w", "Dolphins whistle. " * 100))
        await commit(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(one._writer, "_commit", late)
        with pytest.raises(Fault, match="at the same time") as caught:
            await one.store("c", new)
    assert (caught.value.code, caught.value.failure.retryable) == ("unavailable", True)
    (kept,), _ = await one.list_documents("c", limit=9)  # the other one's
    passages, _ = await one.list_passages("c", kept.document_id, limit=9, offset=0)
    assert all("Dolphins" in passage.text for passage in passages)
    assert (await one.store("c", new)).outcome == "replaced"
    passages, _ = await one.list_passages("c", new.document_id, limit=9, offset=0)
    assert len(passages) == len(new.chunks)


async def test_lock_of_a_document_exists_only_while_it_is_written(library):
    """A million documents leave no million locks."""
    writer = library._writer
    await asyncio.gather(
        *(library.store("c", document("w", f"Whales sing song {i}.")) for i in range(3)),
        library.store("c", document("v", "Dolphins whistle.")),
    )
    assert await library.delete("c", (document_id("c", "v"),)) == 1
    assert len(writer._locks) == 0


async def test_field_types_come_from_the_values_unless_declared(library):
    """An ISO date is a date; a declared type wins."""
    new = document("w", "Whales.", metadata={"day": "2024-01-31", "code": "2024-01-31", "n": 1})
    await library.store("c", new, {"code": "keyword"})
    (info,) = await library.list_collections()
    assert info.fields == {"day": "datetime", "code": "keyword", "n": "float"}
    assert (info.documents, info.chunks) == (1, 1)


async def test_every_number_of_a_field_is_found(library):
    """Whatever number, or blank text, the first document has."""
    for name, price, day in (("a", 10, ""), ("b", 12.5, "2024-01-31"), ("c", 30, "2024-02-01")):
        metadata = {"price": price, "day": day}
        result = await library.store("c", document(name, f"Price of {name}.", metadata=metadata))
        assert result.reason is None

    async def found(where):
        hits = await library.search("c", "price", limit=9, where=where)
        return sorted(hit.title[-1] for hit in hits)

    assert await found({"price": {"$gt": 11}}) == ["b", "c"]
    assert await found({"price": {"$lt": 20}}) == ["a", "b"]
    assert await found({"price": {"$gte": 12.5}}) == ["b", "c"]
    assert await found({"price": 10}) == ["a"]
    assert await found({"price": {"$in": [12.5, 30]}}) == ["b", "c"]
    assert await found({"price": {"$nin": [12.5, 30]}}) == ["a"]
    assert await found({"day": {"$gte": "2024-01-31"}}) == ["b", "c"]


DATES = (
    "2024-01-31", "2024-01-31T12:00", "2024-01-31 12:00:00.5", "2024-01-31T12:00Z",
    "2024-01-31T12:00+00:00", "2024-01-31 12:00+05:30", "2024-01-31T12Z", "2024-01-31T1200",
    "2024-01-31T120000Z", "2024-01-31x12:00:00Z", "2024-01-31T12:00:00,5Z", "2024-W05-3",
    "2024-01-31T12:00:00+05:30:15", "2024-01-31T12:00:00Z", "0001-01-01T12:00+05:00",
    "9999-12-31T23:59-05:00",
)  # fmt: skip


@pytest.mark.parametrize("engine", ["embedded", "memory"])
@pytest.mark.parametrize("written", DATES)
async def test_every_date_is_found_or_named(store, embedder, engine, written):
    """The engines read fewer forms than are dates."""
    if engine == "memory":
        store = await open_store(url=":memory:")
    library = await Library.open(store, embedder)
    await library.store("c", document("a", "Whale.", metadata={"day": "2000-01-01"}))
    new = document("b", "Dolphin.", metadata={"day": written, "kind": written})
    result = await library.store("c", new, {"kind": "keyword"})
    found = {
        hit.title[-1]
        for where in ({"day": {"$gt": "2000-01-01"}}, {"day": {"$lt": "2000-01-01"}})
        for hit in await library.search("c", "dolphin", where=where)
    }
    assert found or result.reason
    assert (result.reason is None) == (
        written not in ("2024-W05-3", "2024-01-31T12:00:00+05:30:15")
    )
    (hit,) = await library.search("c", "dolphin", where={"kind": written})
    assert hit.metadata["kind"] == written
    assert (await library.store("c", new)).outcome == "unchanged"


async def test_dates_that_an_older_release_stored_are_found_by_the_next_ingest(library, store):
    """They were stored as they were written; the document is listed as one to send again."""
    new = document("w", "Whale.", metadata={"day": "2024-01-31T12:00Z", "n": 1})
    await library.store("c", new, {"day": "datetime"})
    await store.set_payload("c", Equals("document_id", new.document_id), {"m": new.metadata})
    where = {"day": {"$gt": "2000-01-01"}}
    assert await library.search("c", "whale", where=where) == []
    (listed,), _ = await library.list_documents("c", limit=9)
    assert listed.revision == ""
    assert (await library.store("c", new)).outcome == "unchanged"
    assert len(await library.search("c", "whale", where=where)) == 1
    (listed,), _ = await library.list_documents("c", limit=9)
    assert listed.revision == revision_of(new)


async def test_whole_numbers_of_an_older_collection_are_found(library):
    """Its field is of whole numbers; a fraction in it is named where it is stored."""
    for number in (1, 2, 3):
        new = document(str(number), f"Whale {number}.", metadata={"n": number})
        assert (await library.store("c", new, {"n": "integer"})).reason is None
    hits = await library.search("c", "whale", where={"n": {"$in": [1, 3]}})
    assert sorted(hit.metadata["n"] for hit in hits) == [1, 3]
    assert len(await library.search("c", "whale", where={"n": 2})) == 1
    result = await library.store("c", document("4", "Whale.", metadata={"n": 1.5, "m": "x"}))
    assert result.outcome == "stored"
    assert "n is integer, a value of it float" in result.reason
    assert "--rebuild" in result.reason


async def test_number_with_more_digits_than_a_float_is_named(library):
    """The field has its type of an earlier document: a filter takes its neighbour for it."""
    for name, number in (("a", 1), ("b", 2**53 + 1)):
        result = await library.store("c", document(name, "Whale.", metadata={"n": number}))
    assert len(await library.search("c", "whale", where={"n": 2**53})) == 1
    assert "not exactly" in result.reason
    assert "n is float, a value of it integer. Declare one type" in result.reason


def test_title_date_and_section_are_embedded_with_a_passage():
    """Statements of different meetings differ in little else."""
    new = document("s", "x", title="FOMC Statement", metadata={"n": 1, "date": "2024-01-31"})
    assert embedded_text(new, "Votes", "All agreed.") == (
        "FOMC Statement (2024-01-31). Votes. All agreed."
    )
    assert embedded_text(document("s", "x", title="T"), None, "Text.") == "T. Text."


@pytest.mark.parametrize("failing", ["delete", "set_payload"])
async def test_commit_that_the_store_interrupted_is_ended_by_the_next_ingest(
    library, store, monkeypatch, failing
):
    """As where a server went away: until then the document is one to send again, not lost."""
    await library.store("c", document("other", "Something else."))
    with monkeypatch.context() as patched:

        async def away(*arguments, **options):
            raise StoreUnavailableError("Qdrant is away.", "Start it.")

        patched.setattr(store, failing, away)
        with pytest.raises(Fault):
            await library.store("c", document("w", "Whales sing in the sea."))
    listed, _ = await library.list_documents("c", limit=10)
    assert {d.revision == "" for d in listed if d.title == "Title of w"} == {True}
    result = await library.store("c", document("w", "Whales sing in the sea."))
    assert result.outcome == "stored"
    hits = await library.search("c", "whales sing", limit=5)
    assert "Whales sing in the sea." in {hit.text for hit in hits}
    again = await library.store("c", document("w", "Whales sing in the sea."))
    assert again.outcome == "unchanged"
