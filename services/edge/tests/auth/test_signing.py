"""Signatures: a key for each purpose, one spelling of base64."""

from __future__ import annotations

import base64
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_edge.auth.signing import (
    CursorError,
    Cursors,
    StateCodec,
    derived_key,
    from_base64url,
    load_key,
    read_key,
    to_base64url,
)
from searchbus_edge.composites.sources import Ids
from searchbus_runtime import Secret

KEY = b"k" * 32


def test_each_purpose_and_deployment_has_a_key_of_its_own():
    """A signature for one is worthless for another."""
    keys = {derived_key(key, purpose) for key in (KEY, b"x" * 32) for purpose in ("a", "b")}
    assert len(keys) == 4


@given(st.binary(max_size=100))
def test_base64url_gives_the_bytes_back(data):
    """For every length; the standard library spells them alike, with padding."""
    assert to_base64url(data) == base64.urlsafe_b64encode(data).decode().rstrip("=")
    assert from_base64url(to_base64url(data)) == data


@pytest.mark.parametrize("text", ["QR", "QQ==", "Q Q", "Q\nQ", "QQ+", "Q", "é", "Q/"])
def test_other_spellings_are_refused(text):
    """Padding, white space, other alphabets, and bits beyond the last byte."""
    with pytest.raises(ValueError):
        from_base64url(text)


def test_key_is_kept_in_the_data_folder(tmp_path):
    """A restart reads the same key, which only the owner can read."""
    folder = tmp_path / "new"
    key = load_key(folder)
    assert len(key) == 32
    assert load_key(folder) == key
    assert (folder / "edge.key").stat().st_mode & 0o077 == 0


def test_key_of_a_read_only_folder_is_read(tmp_path):
    """Nothing is written where the key is there."""
    (tmp_path / "edge.key").write_bytes(b"k" * 32)
    assert load_key(tmp_path) == b"k" * 32
    assert [path.name for path in tmp_path.iterdir()] == ["edge.key"]


def test_edges_that_start_together_read_one_key(tmp_path):
    """The first one wins, and nothing but the key is left in the folder."""
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(lambda _: load_key(tmp_path), range(64)))
    assert len(keys) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [".edge.key.lock", "edge.key"]


def test_key_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    """A short key would be replaced at the next start, and what it signed unknown."""

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        load_key(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".edge.key.lock"]


def test_key_without_a_folder_ends_with_the_process(caplog):
    """Two are different, and the log says so."""
    assert load_key(None) != load_key(None)
    assert "SEARCHBUS_STATE_KEY" in caplog.text


@pytest.mark.parametrize("content", [b"", b"short"])
def test_damaged_key_is_replaced_and_said(tmp_path, caplog, content):
    """The edge starts; a short key would be weak."""
    (tmp_path / "edge.key").write_bytes(content)
    with pytest.raises(ValueError, match=f"{len(content)} bytes of 32"):
        read_key(tmp_path / "edge.key")
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(lambda _: load_key(tmp_path), range(64)))
    assert [len(key) for key in keys] == [32]
    assert caplog.text.count("A new key replaces it.") == 1
    assert read_key(tmp_path / "edge.key") in keys


def test_a_rotated_key_is_read_beside_the_new_one(tmp_path):
    """Of cursors, ids and the state of tools; what a stranger made is not."""
    old, new = "o" * 32, "n" * 32
    file = tmp_path / "KEY"
    file.write_text(old)
    clock = iter(range(0, 10_000, 2)).__next__
    secret = Secret("state_key", (old,), file, clock=clock)
    cursors, ids, codec = Cursors(secret), Ids(secret), StateCodec(secret)
    made = cursors.issue({}, "tools"), ids.of_page("https://a.example/"), codec.seal(b"state")
    file.write_text(f"{old}\n{new}")  # rotated
    assert cursors.issue({}, "tools") == made[0]
    for of_new in (Secret("state_key", (new,)), b"n" * 32):
        assert cursors.read(Cursors(of_new).issue({}, "tools"), "tools") == {}
    file.write_text(new)  # retired: what edges issued just before that is still read
    assert cursors.issue({}, "tools") == Cursors(b"n" * 32).issue({}, "tools")
    assert cursors.read(made[0], "tools") == {}
    assert ids.page(made[1]) == "https://a.example/"
    assert codec.unseal(made[2]) == b"state"
    with pytest.raises(CursorError):
        cursors.read(Cursors(b"x" * 32).issue({}, "tools"), "tools")


CURSORS = Cursors(b"k" * 32)


def test_cursor_gives_back_its_state():
    """On every edge with the same key."""
    cursor = CURSORS.issue({"o": 5, "g": "é"}, "tools", None)
    assert Cursors(b"k" * 32).read(cursor, "tools", None) == {"o": 5, "g": "é"}


@pytest.mark.parametrize("bound_to", [(), ("tools",), ("prompts", None), ("tools", "web")])
def test_cursor_of_another_list_is_refused(bound_to):
    """Another method, toolset, query or caller."""
    with pytest.raises(CursorError):
        CURSORS.read(CURSORS.issue({"o": 5}, "tools", None), *bound_to)


def test_parts_of_the_list_do_not_run_together():
    """("ab", "c") is not ("a", "bc")."""
    with pytest.raises(CursorError):
        CURSORS.read(CURSORS.issue({"o": 5}, "ab", "c"), "a", "bc")


def test_changed_cursors_are_refused():
    """Each character counts."""
    cursor = CURSORS.issue({"o": 5}, "tools")
    changed = [
        cursor[:n] + ("A" if cursor[n] != "A" else "B") + cursor[n + 1 :]
        for n in range(len(cursor))
    ]
    for bad in [*changed, cursor[:-1], cursor + "A", cursor + "=", " " + cursor, cursor.lower()]:
        with pytest.raises(CursorError):
            CURSORS.read(bad, "tools")


@pytest.mark.parametrize("bad", ["", "x", "é", "A" * 3000, "....", "AAAAAAAAAAAAAAAAAAAAAA"])
def test_text_that_is_no_cursor_is_refused(bad):
    """Whatever its length and letters."""
    with pytest.raises(CursorError):
        CURSORS.read(bad, "tools")


def test_cursor_of_another_deployment_is_refused():
    """By its key."""
    with pytest.raises(CursorError):
        Cursors(b"x" * 32).read(CURSORS.issue({}, "tools"), "tools")
