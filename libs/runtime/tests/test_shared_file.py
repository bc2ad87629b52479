"""A file that replicas share over a bucket."""

from __future__ import annotations

import asyncio
import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_runtime.shared_file import SharedFile


def split(content: Any) -> dict[str, Any]:
    return dict(content["entries"])


def join(entries: dict[str, Any]) -> Any:
    return {"entries": entries}


class Replica:
    """One replica and its file."""

    def __init__(self, path: Path, store: MemoryKeyValue) -> None:
        path.parent.mkdir(exist_ok=True)
        self.path = path
        self.file = SharedFile(path, store, "things", split=split, join=join)

    @property
    def entries(self) -> dict[str, Any]:
        return split(json.loads(self.path.read_text())) if self.path.exists() else {}

    def change(self, **entries: Any) -> None:
        """As a command does it; None removes an entry."""
        new = {**self.entries, **entries}
        self.path.write_text(json.dumps(join({k: v for k, v in new.items() if v is not None})))

    async def look(self) -> None:
        await self.file.look()
        assert self.file.reached


@pytest.fixture
def store() -> MemoryKeyValue:
    return MemoryKeyValue(ttl_s=None)


@pytest.fixture
async def two(store, tmp_path) -> tuple[Replica, Replica]:
    one, other = (Replica(tmp_path / name / "f.json", store) for name in ("one", "other"))
    await one.look()
    await other.look()
    return one, other


async def test_what_one_adds_changes_and_removes_the_others_have(two):
    """And a replica that starts later, without a file."""
    one, other = two
    one.change(a=1, b=2)
    await one.look()
    await other.look()
    assert other.entries == {"a": 1, "b": 2}
    other.change(a=None, b=3)
    await other.look()
    await one.look()
    assert one.entries == {"b": 3}


async def test_changes_at_the_same_time_are_both_kept(two):
    """Of one and the same entry the first in the bucket counts."""
    one, other = two
    one.change(a=1, same="one")
    other.change(b=2, same="other")
    await asyncio.gather(one.look(), other.look())
    for replica in (one, other, one):
        await replica.look()
    assert one.entries == other.entries
    assert (one.entries["a"], one.entries["b"]) == (1, 2)
    assert one.entries["same"] in ("one", "other")


async def test_a_file_from_before_a_restart_brings_nothing_back(two, store):
    """What was revoked while the container was down stays revoked."""
    one, other = two
    one.change(a=1, b=2)
    await one.look()
    await other.look()
    one.change(a=None)
    await one.look()
    again = Replica(other.path, store)
    assert again.entries == {"a": 1, "b": 2}
    await again.look()
    assert again.entries == {"b": 2}
    await one.look()
    assert one.entries == {"b": 2}


async def test_an_empty_bucket_is_filled_from_the_file(store, tmp_path):
    """At the first start, and after the store was lost."""
    one = Replica(tmp_path / "one" / "f.json", store)
    one.change(a=1)
    await one.look()
    store._entries.clear()
    await one.look()
    other = Replica(tmp_path / "other" / "f.json", store)
    await other.look()
    assert one.entries == other.entries == {"a": 1}


async def test_without_the_store_the_file_stays_and_changes_are_sent_later(two, store, caplog):
    """Logged once."""
    one, other = two
    one.change(a=1)
    await one.look()
    store.away = True
    one.change(b=2)
    for _ in range(3):
        await one.file.look()
    assert (one.file.reached, one.file.known) == (False, True)
    assert caplog.text.count("is not shared with the other replicas") == 1
    store.away = False
    await one.look()
    await other.look()
    assert other.entries == {"a": 1, "b": 2}


async def test_a_replica_that_never_reached_the_store_knows_nothing(store, tmp_path):
    """Though its file has something, which may be old."""
    store.away = True
    one = Replica(tmp_path / "one" / "f.json", store)
    one.change(a=1)
    await one.file.start()
    assert (one.file.reached, one.file.known) == (False, False)
    await one.file.close()


async def test_large_content_goes_in_parts_and_old_parts_are_deleted(two, store):
    """Random text: it does not become smaller."""
    one, other = two
    for _ in range(3):
        one.change(**{str(n): secrets.token_hex(500_000) for n in range(4)})
        await one.look()
    await other.look()
    assert one.entries == other.entries
    head, *parts = await store.keys()
    assert head == "things"
    assert 1 < len(parts) < 12  # one set of them, not three


async def test_a_damaged_file_changes_nothing_at_the_others(two, caplog):
    """It is logged, and put right from the bucket once it is deleted or mended."""
    one, other = two
    one.change(a=1)
    await one.look()
    one.path.write_text("{")
    await one.file.look()
    assert not one.file.reached
    assert "is damaged" in caplog.text
    await other.look()
    assert other.entries == {"a": 1}


async def test_a_change_during_a_look_is_not_lost(two, monkeypatch):
    """A command writes after the file was read, and before it is written."""
    one, other = two
    other.change(a=1)
    await other.look()
    write = one.file._write

    def late(*arguments: Any) -> Any:
        one.change(b=2)
        return write(*arguments)

    monkeypatch.setattr(one.file, "_write", late)
    await one.look()
    assert one.entries == {"a": 1, "b": 2}
    monkeypatch.undo()
    await one.look()
    await other.look()
    assert other.entries == {"a": 1, "b": 2}
