"""The file of sources, addresses, and what is remembered of each source."""

from __future__ import annotations

import os
from unittest.mock import ANY

import msgspec
import pytest

from searchbus_contracts import Fault
from searchbus_ingest.sync import rows as module
from searchbus_ingest.sync.jobs import Syncing
from searchbus_ingest.sync.rows import SourceRow, address_of, read_rows, seconds_of
from searchbus_ingest.sync.source import SourceUnreadableError
from searchbus_ingest.sync.state import (
    SourceBusyError,
    SyncState,
    check,
    claimed,
    read_state,
    state_path,
    write_state,
)
from searchbus_runtime.state import StackState
from searchbus_runtime.state import write_state as write_stack

ROW = """[[source]]
name = "handbook"
source = "./handbook"
collection = "docs"
"""


def test_rows_are_read(tmp_path):
    """`every` has a default."""
    path = tmp_path / "sources.toml"
    path.write_text(ROW + 'every = "15m"\ninclude = ["*.md"]\n' + ROW.replace("book", "book2"))
    assert read_rows(path) == (
        SourceRow("handbook", "./handbook", "docs", "15m", ("*.md",)),
        SourceRow("handbook2", "./handbook2", "docs", "1h"),
    )
    path.write_text("")
    assert read_rows(path) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ROW + 'every = "soon"', "handbook: every=soon: write 30s"),
        (ROW + 'every = "1s"', "from 10 s to 30 days"),
        (ROW + 'every = "99999999d"', "write 30s"),
        (ROW.replace('"docs"', '"a b"'), "collection: use 1 to 64"),
        (ROW.replace("./handbook", "ssh://example.com"), "use a path, git"),
        (ROW.replace("./", "https://[oops/"), "handbook: source: https://[oops/handbook is not a"),
        (ROW.replace("./", "feed+http://a.example:99999/"), "handbook: source: feed+http://a.exam"),
        (ROW.replace("./", "sitemap+https:///"), "handbook: source: sitemap+https:///handbook"),
        (ROW.replace("./", "feed+https://a.example/") + 'include = ["*.md"]', "handbook: include"),
        (ROW + ROW, "handbook is there twice"),
        (ROW + "evry = 1", "unknown field `evry`"),
        ('[[source]]\nname = "a"', "missing required field"),
        ("[[source", "sources.toml"),
        ("source = 1", "sources.toml"),
    ],
)
def test_wrong_file_is_refused(tmp_path, text, problem):
    """The message names the file, the source and what is valid."""
    path = tmp_path / "sources.toml"
    path.write_text(text)
    with pytest.raises(Fault, match=r"sources\.toml") as caught:
        read_rows(path)
    assert problem in str(caught.value)
    with pytest.raises(Fault, match="cannot be read"):
        read_rows(tmp_path / "nothing.toml")


def test_kind_is_in_the_address_or_seen(tmp_path):
    """A folder with `.git` is a repository, unless the address says folder."""
    (tmp_path / "r" / ".git").mkdir(parents=True)
    path = str(tmp_path / "r")
    assert address_of("r", tmp_path) == ("git", path)
    assert address_of("git+r#next", tmp_path) == ("git", f"{path}#next")
    assert address_of("folder+r", tmp_path) == ("folder", path)
    assert address_of("x#y", tmp_path) == ("folder", f"{tmp_path}/x#y")
    assert address_of("https://a.example/f", tmp_path) == ("", "https://a.example/f")
    assert address_of("feed+http://a.example/f", tmp_path) == ("feed", "http://a.example/f")
    assert address_of("git+https://a.example/r#b", tmp_path)[0] == "git"


@pytest.mark.parametrize(
    "text",
    ["git+http://a.example/x", "folder+https://a.example", "ftp://a.example", "feed+./x",
     "git+ssh://a.example/x", "git+ext::sh://x", "sitemap+file:///etc/passwd",
     "https://user:password@a.example/feed", "~no-such-user/x"],
)  # fmt: skip
def test_other_addresses_are_refused(text, tmp_path):
    """With the ones that are read."""
    with pytest.raises(Fault, match="use "):
        address_of(text, tmp_path)


def test_times_are_numbers_with_a_unit():
    """Of seconds, minutes, hours and days."""
    assert [seconds_of(text) for text in ("30s", "15m", "6h", "1d")] == [30, 900, 21600, 86400]


@pytest.fixture
async def syncing(command_bus, tmp_path):
    folder = tmp_path / "handbook"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.md").write_text(f"Whales of {name}.")
    return Syncing(tmp_path / "data", base=tmp_path)


HANDBOOK = SourceRow("handbook", "./handbook", "docs", "15m")


async def test_what_happened_is_remembered_and_shown(syncing, tmp_path):
    """By `searchbus doctor`; what failed as well, until it works again."""
    data = tmp_path / "data"
    assert check(data) == ("sync", True, "no sources")
    assert syncing.due_s(HANDBOOK) == 0
    await syncing.run(HANDBOOK)
    _, ok, text = check(data)
    assert ok
    assert text.startswith("handbook (")
    assert "3 stored" in text
    assert 800 < syncing.due_s(HANDBOOK) <= 900
    (tmp_path / "handbook").rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(SourceUnreadableError):
            await syncing.run(HANDBOOK)
    _, ok, text = check(data)
    assert not ok
    assert "failed 2 times: " in text
    assert syncing.due_s(HANDBOOK) == 0
    (tmp_path / "away").rename(tmp_path / "handbook")
    assert (await syncing.run(HANDBOOK)).unchanged == 3
    assert check(data)[1]


async def test_source_of_the_stack_that_is_overdue_is_shown(syncing, tmp_path):
    """By `searchbus doctor`, also before its first sync; not while it is synced or just new."""
    data = tmp_path / "data"
    data.mkdir()
    file, path = data / "sources.toml", state_path(data, "docs", "handbook")
    file.write_text(ROW + 'every = "15m"')
    os.utime(file, (0, 0))
    assert check(data) == ("sync", True, "no sources")
    write_stack(StackState("", "", str(data), os.getpid(), processes={"sync": 1}))
    overdue = "handbook is overdue (every 15m): see logs/sync.log"
    assert check(data)[1]  # the stack has just started
    os.utime(data / "state.json", (0, 0))
    assert check(data) == ("sync", False, overdue)
    os.utime(file)
    assert check(data)[1]
    os.utime(file, (0, 0))
    await syncing.run(HANDBOOK)
    assert check(data)[1]
    state = msgspec.json.decode(path.read_bytes(), type=SyncState)
    state.ran_s -= 900 + module.SLOT_S
    write_state(path, state)
    assert check(data)[1:] == (False, ANY)
    assert check(data)[2].endswith(overdue)
    with claimed(path):
        assert check(data)[1]


async def test_deletes_that_wait_for_an_operator_are_shown(syncing, tmp_path, retrieval):
    """They are a problem until they are allowed, or the files are back."""
    await syncing.run(HANDBOOK)
    for path in (tmp_path / "handbook").iterdir():
        path.unlink()
    await syncing.run(HANDBOOK)
    assert "3 documents are gone and stay" in check(tmp_path / "data")[2]
    assert len(retrieval.documents) == 3


async def test_second_sync_of_one_source_at_once_ends(syncing, tmp_path, retrieval):
    """It changes nothing; another source is not held up."""
    path = state_path(tmp_path / "data", "docs", "handbook")
    with claimed(path), pytest.raises(SourceBusyError, match="another sync of this source"):
        await syncing.run(HANDBOOK)
    assert not retrieval.documents
    with claimed(state_path(tmp_path / "data", "docs", "other")):
        assert (await syncing.run(HANDBOOK)).stored == 3


async def test_damaged_state_is_made_anew(syncing, tmp_path, retrieval):
    """It only saves work."""
    await syncing.run(HANDBOOK)
    path = state_path(tmp_path / "data", "docs", "handbook")
    path.write_bytes(b"\xff{")
    assert check(tmp_path / "data") == ("sync", True, "no sources")
    assert (await syncing.run(HANDBOOK)).unchanged == 3


async def test_state_of_another_release_or_address_is_not_used(tmp_path):
    """Another release may read files in another way."""
    path = tmp_path / "s.json"
    state = read_state(path, "s", "c", "folder+/a")
    state.entries = {"a": ("1", "2")}
    write_state(path, state)
    assert read_state(path, "s", "c", "folder+/a").entries
    assert not read_state(path, "s", "c", "folder+/b").entries
    state.version = "0"
    write_state(path, state)
    assert not read_state(path, "s", "c", "folder+/a").entries


def test_allowlist_of_the_service_web_holds(tmp_path, monkeypatch):
    """Its hosts are reached although they are not public."""
    monkeypatch.setenv("SEARCHBUS_WEB_ROUTES", '{"wiki.corp.example": "10.0.0.7:80"}')
    syncing = Syncing(tmp_path, base=tmp_path)
    assert syncing._routes() == {"wiki.corp.example": "10.0.0.7:80"}
    monkeypatch.setenv("SEARCHBUS_WEB_ROUTES", "{")
    with pytest.raises(Fault, match="web_routes"):
        syncing._routes()
    assert module.MAX_SOURCES == 1000
