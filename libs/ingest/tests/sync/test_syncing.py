"""One sync of a source that is played: what is stored, what is deleted, and what never is."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.ingest import document_id
from searchbus_ingest.sending import send
from searchbus_ingest.sources.item import Item, Reason, SourceUnchangedError, make_document
from searchbus_ingest.sync import syncing as module
from searchbus_ingest.sync.source import (
    SourceEntry,
    SourceListing,
    SourceUnreadableError,
)
from searchbus_ingest.sync.state import SyncState, read_state
from searchbus_ingest.sync.syncing import Sync

from ..conftest import bus_with


@dataclass
class Played:
    """A source: name → text; `failing` cannot be read; `reads` has what was read."""

    texts: dict[str, str] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    reads: list[str] = field(default_factory=list)
    stamp: str = ""
    gone_after: str = ""
    partial: str = ""
    days: dict[str, str] = field(default_factory=dict)
    skipped: list[Item] = field(default_factory=list)
    away: str = ""
    stamped: bool = True
    ends_after: int = 10**9

    async def entries(self, known):
        if self.away:
            raise SourceUnreadableError(self.away)
        if known and known == self.stamp:
            raise SourceUnchangedError
        entries = [
            SourceEntry(name, f"stamp of {text}" if self.stamped else "")
            for name, text in self.texts.items()
        ]
        return SourceListing(
            entries, self.skipped, stamp=self.stamp, gone_after=self.gone_after,
            partial=self.partial,
        )  # fmt: skip

    async def read(self, entry, known, collection):
        if len(self.reads) == self.ends_after:
            raise TimeoutError
        self.reads.append(entry.name)
        if entry.name in self.failing:
            yield Item(entry.name, problem="locked")
            return
        day = self.days.get(entry.name)
        yield make_document(
            entry.name, collection=collection, source_id=entry.name, title=entry.name,
            text=self.texts[entry.name], metadata={"date": day} if day else {},
        )  # fmt: skip

    async def close(self):
        pass


class Runs:
    """Syncs one source again and again, with its state."""

    def __init__(self, bus, source, name="s"):
        self.bus, self.source = bus, source
        self.state = SyncState(name=name, collection="c", source="played")

    async def __call__(self, **options):
        return await Sync(self.bus, self.source, self.state, **options).run()


@pytest.fixture
async def runs(retrieval):
    source = Played({name: f"Whales of {name}." for name in "abcdef"})
    return Runs(await bus_with(retrieval), source)


def titles(retrieval):
    return sorted(d.title for d in retrieval.documents.values())


async def test_second_sync_reads_and_sends_nothing(runs, retrieval):
    """What has the stamp that it had, and is in place, is unchanged."""
    first = await runs()
    assert (first.stored, first.unchanged, len(runs.source.reads)) == (6, 0, 6)
    sent = sum(retrieval.batches)
    again = await runs()
    assert (again.stored, again.replaced, again.unchanged) == (0, 0, 6)
    assert len(runs.source.reads) == 6
    assert sum(retrieval.batches) == sent


async def test_without_a_state_everything_is_read_and_nothing_is_sent(runs, retrieval):
    """As on another machine; also deletes are the same there."""
    await runs()
    sent = sum(retrieval.batches)
    del runs.source.texts["a"]
    other = Runs(runs.bus, runs.source)
    summary = await other()
    assert (summary.unchanged, summary.deleted, len(runs.source.reads)) == (5, 1, 11)
    assert sum(retrieval.batches) == sent
    assert titles(retrieval) == list("bcdef")


async def test_changed_renamed_and_gone_documents_follow(runs, retrieval):
    """Only what changed is sent."""
    await runs()
    texts = runs.source.texts
    texts["a"] = "Dolphins whistle."
    texts["b2"] = texts.pop("b")
    summary = await runs()
    assert (summary.replaced, summary.stored, summary.deleted, summary.unchanged) == (1, 1, 1, 4)
    assert titles(retrieval) == ["a", "b2", "c", "d", "e", "f"]
    assert runs.source.reads[6:] == ["b2", "a"]


async def test_what_the_collection_lost_is_stored_again(runs, retrieval):
    """Although the state says that it is in place."""
    await runs()
    retrieval.documents.popitem()
    assert (await runs()).stored == 1
    runs.source.stamp = "v1"
    await runs()
    retrieval.documents.clear()
    assert (await runs()).stored == 6


async def test_documents_of_others_stay(runs, retrieval):
    """Of an ingest, and of another source that has entries of the same names."""
    ingested = make_document("a", collection="c", source_id="a", title="ingested", text="Mine.")
    await send(runs.bus, "c", [ingested])
    other = Runs(runs.bus, Played(dict(runs.source.texts)), name="other")
    await other()
    await runs()
    assert len(retrieval.documents) == 13
    runs.source.texts = {"z": "Only this."}
    await runs(allow_deletes=True)
    assert len(retrieval.documents) == 1 + 6 + 1
    assert document_id("c", "a") in retrieval.documents


async def test_prune_of_an_ingest_spares_synced_documents(runs, retrieval):
    """They are not of its source."""
    await runs()
    ingested = make_document("x", collection="c", source_id="x", title="x", text="Mine.")
    summary = await send(runs.bus, "c", [ingested], prune=True)
    assert summary.deleted == 0
    assert len(retrieval.documents) == 7


@pytest.mark.parametrize("left", [0, 2])
async def test_more_than_half_is_deleted_only_on_demand(runs, retrieval, left):
    """An empty folder may be a disk that is not mounted."""
    await runs()
    runs.source.texts = dict(list(runs.source.texts.items())[:left])
    held = await runs()
    assert (held.held, held.deleted, len(retrieval.documents)) == (6 - left, 0, 6)
    assert "--allow-deletes" in held.notes[0]
    assert (await runs(allow_deletes=True)).deleted == 6 - left
    assert len(retrieval.documents) == left


async def test_half_may_go(runs, retrieval):
    """And in a small source two documents, whatever part they are."""
    await runs()
    runs.source.texts = dict(list(runs.source.texts.items())[:3])
    assert (await runs()).deleted == 3
    runs.source.texts = dict(list(runs.source.texts.items())[:1])
    assert (await runs()).deleted == 2


async def test_what_cannot_be_read_is_not_deleted(runs, retrieval):
    """Nor what is below a folder that cannot be listed."""
    runs.source.texts["sub/g"] = "Seals."
    await runs()
    runs.source.texts["a"] = "Changed, and locked."
    runs.source.failing = {"a"}
    del runs.source.texts["b"], runs.source.texts["sub/g"]
    runs.source.skipped = [Item("sub/", problem="cannot be listed")]
    summary = await runs()
    assert (summary.deleted, len(summary.failed)) == (1, 2)
    assert titles(retrieval) == ["a", "c", "d", "e", "f", "sub/g"]
    runs.source.failing, runs.source.skipped = set(), []
    summary = await runs()
    assert (summary.replaced, summary.deleted) == (1, 1)


async def test_source_that_is_away_changes_nothing(runs, retrieval):
    """Its error is the caller's."""
    await runs()
    runs.source.away = "the disk is away"
    with pytest.raises(SourceUnreadableError, match="disk is away"):
        await runs(allow_deletes=True)
    assert len(retrieval.documents) == 6


async def test_source_that_was_not_read_to_its_end_deletes_nothing(runs, retrieval):
    """Not even on demand."""
    await runs()
    del runs.source.texts["a"]
    runs.source.partial = "a sitemap is away"
    summary = await runs(allow_deletes=True)
    assert (summary.held, summary.deleted) == (1, 0)
    assert "a sitemap is away" in summary.notes[0]


async def test_entries_that_left_the_end_of_a_feed_stay(runs, retrieval):
    """Only a missing one that is newer than the oldest listed one was deleted."""
    runs.source.days = {name: f"2026-03-0{n}" for n, name in enumerate("abcdef", 1)}
    await runs()
    for name in ("a", "b", "e"):
        del runs.source.texts[name]
    runs.source.gone_after = "2026-03-03"
    assert (await runs()).deleted == 1
    assert titles(retrieval) == list("abcdf")


async def test_whole_source_that_is_unchanged_is_not_listed(runs, retrieval):
    """Where the last sync was complete, and its documents are in place."""
    runs.source.stamp = "v1"
    runs.source.failing = {"a"}
    assert len((await runs()).failed) == 1
    runs.source.failing = set()
    assert (await runs()).stored == 1
    assert (await runs()).unchanged == 6
    assert runs.source.reads == [*"abcdef", "a"]


async def test_interrupted_sync_goes_on_where_it_was(runs, retrieval, tmp_path, monkeypatch):
    """What was read and stored is not read again; what was only read is."""
    monkeypatch.setattr(module, "_SAVE_EVERY_S", 0.0)
    path = tmp_path / "state.json"
    retrieval.failure = Fault(ErrorCode.INTERNAL, "Killed.")
    with pytest.raises(Fault, match="Killed"):
        await runs(path=path)
    retrieval.failure = None
    runs.state = read_state(path, "s", "c", "played")
    assert set(runs.state.entries) >= set("ab")
    await runs()
    assert len(retrieval.documents) == 6
    runs.source.reads.clear()
    runs.state = read_state(path, "s", "c", "played")
    await runs()
    assert not {"a", "b"} & set(runs.source.reads)


@pytest.mark.parametrize("stamped", [True, False])
async def test_sync_that_never_has_time_for_all_looks_at_all_in_turn(
    runs, retrieval, tmp_path, monkeypatch, stamped
):
    """New entries first, then those that wait the longest: also where only reading tells of a
    change, where an entry has no document, and where it fails."""
    monkeypatch.setattr(module, "_SAVE_EVERY_S", 0.0)
    path, source = tmp_path / "state.json", runs.source
    source.failing, source.stamped = {"b"}, stamped
    for _ in range(2):
        source.ends_after = len(source.reads) + 3
        with pytest.raises(TimeoutError):
            await runs(path=path)
        runs.state = read_state(path, "s", "c", "played")
    assert {*source.reads[:6]} == {*"abcdef"}
    source.texts = {"new": "Seals.", **{n: f"{t} More." for n, t in source.texts.items()}}
    source.ends_after = 9
    with pytest.raises(TimeoutError):
        await runs(path=path)
    assert source.reads[6:] == ["new", "a", "b"]


async def test_refused_document_is_sent_again_and_the_old_one_stays(runs, retrieval):
    """The summary names it."""
    await runs()
    runs.source.texts["a"] = "refuse me"
    for _ in range(2):
        summary = await runs()
        assert [item.reason for item in summary.failed] == [Reason.REFUSED]
        assert summary.deleted == 0
    assert len(retrieval.documents) == 6


async def test_too_many_documents_end_the_sync(runs, retrieval, monkeypatch):
    """Nothing is deleted."""
    monkeypatch.setattr(module, "MAX_DOCUMENTS", 3)
    with pytest.raises(Fault, match="the limit of one source"):
        await runs()


async def test_documents_say_where_they_are_from(runs, retrieval):
    """For filters of a search."""
    await runs()
    (metadata,) = (d.metadata for d in retrieval.documents.values() if d.title == "a")
    assert metadata == {"synced_from": "s", "synced_as": "a"}
