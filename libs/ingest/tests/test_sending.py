"""Sending documents in batches; only what is new or changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_ingest import sending
from searchbus_ingest.sending import Retrieval, delete, send
from searchbus_ingest.sources.item import Item, Reason, make_document


def items(*names: str, text: str = "Whales of {name} sing."):
    for name in names:
        yield make_document(
            name, collection="c", source_id=name, title=name, text=text.format(name=name)
        )


async def test_second_run_sends_only_what_has_changed(bus, retrieval):
    """Counts say what became of each document."""
    first = await send(bus, "c", items("a", "b", "d"))
    assert (first.stored, first.chunks, first.documents) == (3, 3, 3)
    again = await send(bus, "c", [*items("a", "b"), *items("d", text="Dolphins whistle.")])
    assert (again.unchanged, again.replaced, again.stored) == (2, 1, 0)
    assert retrieval.batches == [3, 1]


async def test_declared_fields_reach_the_service_where_nothing_has_changed(bus, retrieval):
    """It refuses types that contradict those of the collection."""
    await send(bus, "c", items("a", "b"))
    await send(bus, "c", items("a", "b"), fields={"price": "keyword"})
    assert retrieval.batches == [2, 1]


async def test_the_first_batch_is_small(bus, retrieval):
    """There is progress before many passages are embedded."""
    await send(bus, "c", items(*map(str, range(sending.FIRST_BATCH_CHUNKS + 5))))
    assert sorted(retrieval.batches) == sorted([5, sending.FIRST_BATCH_CHUNKS])


async def test_documents_go_in_batches_of_passages(bus, retrieval, monkeypatch):
    """Every batch is acknowledged and reported."""
    monkeypatch.setattr(sending, "BATCH_CHUNKS", 2)
    seen = []
    await send(bus, "c", items(*"abdef"), on_progress=lambda s: seen.append(s.stored))
    assert sorted(retrieval.batches) == [1, 2, 2]
    assert seen[-1] == 5


async def test_problems_and_refusals_are_reported_and_skipped(bus):
    """The others are stored."""
    summary = await send(
        bus, "c",
        [Item("x.pdf", problem="not a PDF"), *items("a"), *items("b", text="refuse me")],
    )  # fmt: skip
    assert summary.stored == 1
    assert str(summary.skipped[0]) == "x.pdf: not a PDF"
    assert str(summary.skipped[1]).endswith(": Refused.")
    assert summary.reasons == {"unreadable": 1, "refused by the service": 1}


async def test_what_no_filter_finds_is_said_once(bus):
    """Of documents that are stored, however many of them have it."""
    summary = await send(bus, "c", items("a", "b", text="{name} has an odd value"))
    assert (summary.stored, summary.skipped) == (2, [])
    assert summary.notes == ["A value is not found."]


async def test_prune_deletes_what_the_source_lacks(bus, retrieval):
    """And nothing without it."""
    await send(bus, "c", items("a", "b"))
    assert (await send(bus, "c", items("a"))).deleted == 0
    assert (await send(bus, "c", items("a"), prune=True)).deleted == 1
    assert [d.title for d in retrieval.documents.values()] == ["a"]


async def test_prune_keeps_what_could_not_be_read(bus):
    """A file that is locked today was not deleted; nor is anything where a line is faulty."""
    await send(bus, "c", items("a", "b"))
    summary = await send(bus, "c", [Item("a", problem="locked"), *items("b")], prune=True)
    assert summary.deleted == 0
    page = Item("https://a.org/1", problem="not fetched", source_id="a")
    assert (await send(bus, "c", [page, *items("b")], prune=True)).deleted == 0


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        ("d.jsonl:1", Reason.BAD_LINE), ("d.jsonl:2", Reason.TOO_LARGE), ("d.ndjson", Reason.CHANGED),
        ("D.JSON", Reason.UNREADABLE), ("d/", Reason.NOT_LISTED), ("https://a.org/", Reason.NOT_LISTED),
    ],
)  # fmt: skip
async def test_prune_deletes_nothing_where_unknown_documents_were_not_read(bus, origin, reason):
    """Of files of many documents, and of folders: only their content tells the ids."""
    await send(bus, "c", items("a", "b"))
    summary = await send(
        bus, "c", [Item(origin, problem="x", reason=reason), *items("b")], prune=True
    )
    assert summary.deleted == 0
    assert "Nothing was deleted" in summary.notes[0]
    unasked = Item(origin, problem="x", reason=reason, left_out=True)
    assert (await send(bus, "c", [unasked, *items("b")], prune=True)).deleted == 1


async def test_second_document_of_an_id_is_skipped(bus, retrieval):
    """It would replace the first one without a word."""
    summary = await send(bus, "c", [*items("a"), *items("a", text="Other.")])
    assert (summary.stored, summary.reasons) == (1, {"duplicate id": 1})
    assert [d.text for d in retrieval.documents.values()] == ["Whales of a sing."]


async def test_loss_in_a_document_is_noted(bus):
    """Which is stored nevertheless."""
    (item,) = items("a")
    summary = await send(bus, "c", [replace(item, note="1 byte lost")])
    assert (summary.stored, summary.notes) == (1, ["a: 1 byte lost"])


async def test_a_service_that_comes_back_gets_the_batch_again(bus, retrieval, monkeypatch):
    """Progress says that the run waits; what was stored stays counted."""
    monkeypatch.setattr(sending, "PAUSE_S", 0.01)
    first = await send(bus, "c", items("a"))
    assert first.stored == 1
    retrieval.failure = Fault(ErrorCode.UNAVAILABLE, "Away.")
    shown = []

    def on_progress(summary):
        shown.append(summary.waits)
        if len(shown) == 3:
            retrieval.failure = None

    summary = await send(bus, "c", items("a", "b"), on_progress=on_progress)
    assert (summary.stored, summary.unchanged, summary.waits) == (1, 1, 0)
    assert max(shown) == 1
    assert shown[-1] == 0


async def test_a_service_that_stays_away_ends_the_run(bus, retrieval, monkeypatch):
    """After some patience, with its failure."""
    monkeypatch.setattr(sending, "PATIENCE_S", 0.0)
    retrieval.failure = Fault(ErrorCode.UNAVAILABLE, "Away.")
    with pytest.raises(Fault, match="Away"):
        await send(bus, "c", items("a"))


@pytest.mark.parametrize(
    "failure",
    [
        Fault(ErrorCode.INTERNAL, "The disk is full."),
        Fault(ErrorCode.UNAVAILABLE, "The disk is full.", retryable=False),
    ],
)
async def test_failure_of_the_service_ends_the_run(bus, retrieval, monkeypatch, failure):
    """With the service's own failure, and at once: waiting would not help."""
    monkeypatch.setattr(sending, "PAUSE_S", 600.0)
    retrieval.failure = failure
    with pytest.raises(Fault, match="The disk is full"):
        await send(bus, "c", items("a"))


async def test_documents_are_deleted_by_id(bus, retrieval):
    """An unknown id counts nothing."""
    await send(bus, "c", items("a", "b"))
    key = next(iter(retrieval.documents))
    assert await delete(Retrieval(bus), "c", (key, "unknown")) == 1


async def test_rebuild_fills_a_copy_and_puts_it_in_place(bus, retrieval):
    """Also what an interrupted rebuild left in the copy, and neither has now, is deleted."""
    await send(bus, "c", items("a"))
    retrieval.copy = {d.document.document_id: d.document for d in items("stale")}
    fields = {"day": "datetime"}
    summary = await send(bus, "c", items("a", "b"), fields=fields, rebuild=True)
    assert retrieval.declared == fields
    assert (summary.stored, summary.deleted) == (2, 1)
    assert retrieval.staged[1:] == [True]
    assert retrieval.steps == ["begin", "end"]
    assert {d.title for d in retrieval.documents.values()} == {"a", "b"}


async def test_rebuild_loses_no_document_of_another_source(bus, retrieval):
    """It takes the place once the other source was sent as well."""
    await send(bus, "c", items("a"))
    await send(bus, "c", items("b"))
    summary = await send(bus, "c", items("a"), rebuild=True)
    assert (summary.missing, retrieval.steps) == (1, ["begin"])
    assert "1 of its documents" in summary.notes[-1]
    assert (await send(bus, "c", items("b"), rebuild=True)).missing == 0
    assert retrieval.steps == ["begin", "begin", "end"]
    assert {d.title for d in retrieval.documents.values()} == {"a", "b"}
    await send(bus, "c", items("b"), rebuild=True, prune=True)
    assert {d.title for d in retrieval.documents.values()} == {"b"}


async def test_rebuild_that_could_not_read_all_replaces_nothing(bus, retrieval):
    """The collection may have the document that cannot be read now."""
    broken = Item("x.pdf", problem="not a PDF")
    summary = await send(bus, "c", [broken, *items("a")], rebuild=True)
    assert retrieval.steps == ["begin"]
    assert "stays as it was" in summary.notes[-1]
