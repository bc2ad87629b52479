"""Static keys: made, verified, revoked; a damaged file keeps the last valid records."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from searchbus_edge.auth.identity import UnauthenticatedError
from searchbus_edge.auth.static_keys import KeyFile, StaticKeys


@pytest.fixture
def file(tmp_path) -> KeyFile:
    return KeyFile(tmp_path / "new" / "keys.json")


def known(keys: StaticKeys, key: str) -> bool:
    try:
        keys.verify(key)
    except UnauthenticatedError:
        return False
    return True


def test_key_is_verified_by_its_hash(file, clock):
    """The file has the hash and not the key, and only the owner can read it."""
    key, record = file.add("laptop", ("ROLE_A", "B"))
    assert key not in file.path.read_text()
    assert file.path.stat().st_mode & 0o077 == 0
    identity = StaticKeys(file, clock=clock).verify(key)
    assert identity.actor.subject == f"key:{record.id}"
    assert identity.actor.roles == ("A", "B")


def test_every_role_needs_the_star(file, clock):
    """And hides the others."""
    key, _ = file.add("me", ("*", "A"))
    assert StaticKeys(file, clock=clock).verify(key).actor.roles == ("*",)


def test_wrong_keys_are_refused_alike(file, clock):
    """Near misses, unknown ids, other forms."""
    key, record = file.add("laptop", ())
    keys = StaticKeys(file, clock=clock)
    messages = set()
    for bad in (key[:-1], f"{key}x", f"sbk_{record.id}_", f"sbk_00000000_{key[13:]}", "", "x_y_z"):
        with pytest.raises(UnauthenticatedError) as caught:
            keys.verify(bad)
        messages.add(caught.value.message)
    assert len(messages) == 1


def test_changes_at_the_same_time_are_all_kept(file):
    """A key that is revoked does not come back with one that is added meanwhile."""
    revoked = [file.add(f"old {number}", ())[1].id for number in range(8)]
    with ThreadPoolExecutor(16) as threads:
        added = [threads.submit(KeyFile(file.path).add, f"{n}", ()) for n in range(8)]
        gone = [threads.submit(KeyFile(file.path).revoke, key_id) for key_id in revoked]
    assert all(one.result() for one in gone)
    assert {r.id for r in file.read()} == {one.result()[1].id for one in added}


def test_changes_count_after_a_second(file, clock):
    """New, revoked and expired keys."""
    key, record = file.add("laptop", ())
    keys = StaticKeys(file, clock=clock)
    assert known(keys, key)
    assert file.revoke(record.id)
    assert not file.revoke(record.id)
    clock.now_s += 1.0
    assert not known(keys, key)
    short, _ = file.add("short", (), expires_s=1010)
    clock.now_s += 1.0
    assert known(keys, short)
    clock.now_s = 1010.0
    assert not known(keys, short)


def test_key_that_was_verified_is_refused_from_its_expiry_on(file, clock):
    """Although the file is looked at once a second only."""
    key, _ = file.add("short", (), expires_s=1001)
    keys = StaticKeys(file, clock=clock)
    clock.now_s = 1000.5
    assert known(keys, key)
    clock.now_s = 1000.9
    assert known(keys, key)
    clock.now_s = 1001.0
    assert not known(keys, key)


def test_changes_count_after_the_clock_was_set_back(file, clock):
    """Not only when it has come to where it was."""
    key, record = file.add("laptop", ())
    keys = StaticKeys(file, clock=clock)
    assert known(keys, key)
    assert file.revoke(record.id)
    clock.now_s -= 500
    assert not known(keys, key)


def test_only_keys_that_are_valid_are_kept(file, clock):
    """Wrong ones fill no memory, and each is checked."""
    key, _ = file.add("laptop", ())
    keys = StaticKeys(file, clock=clock)
    for number in range(100):
        assert not known(keys, f"{key}{number}")
    assert known(keys, key)
    assert list(keys._verified) == [key]


@pytest.mark.parametrize(
    "damage",
    [
        "", "{", "[]", "5", "null", '{"keys": 5}', '{"keys": [5]}', '{"keys": [{"id": "a"}]}',
        "\x00", "[" * 100_000,
        json.dumps({"keys": [{"id": "a", "name": "n", "sha256": "ä", "roles": [], "created_s": 0}]}),
        json.dumps({"keys": [{"id": "a", "name": "n", "sha256": 5, "roles": [], "created_s": 0}]}),
        json.dumps({"keys": [{"id": "a", "name": "n", "sha256": "", "roles": "AB", "created_s": 0}]}),
        json.dumps({"keys": [{"id": "a", "name": "n", "sha256": "", "roles": [], "created_s": "x"}]}),
        json.dumps({"keys": [{"id": "a", "name": "n", "sha256": "0" * 64, "roles": [],
                              "created_s": 0, "newer": 1}]}),
    ],
)  # fmt: skip
def test_damaged_file_keeps_the_last_valid_keys(file, clock, damage, caplog):
    """Requests succeed or are refused as before, and the log says so once."""
    key, _ = file.add("laptop", ())
    keys = StaticKeys(file, clock=clock)
    assert known(keys, key)
    good = file.path.read_text()
    file.path.write_text(damage)
    for _ in range(3):
        clock.now_s += 1.0
        assert known(keys, key)
        assert not known(keys, "sbk_0_x")
    assert caplog.text.count("not a valid keys file") == 1
    assert "The 1 keys read before stay valid" in caplog.text
    file.path.write_text(good.replace('"created_s"', ' "created_s"'))
    clock.now_s += 1.0
    assert known(keys, key)


def test_damaged_file_at_the_start_refuses_typed(file, clock):
    """Nobody is let in, and no request fails otherwise."""
    file.path.parent.mkdir()
    file.path.write_bytes(b"\xff\xfe")
    assert not known(StaticKeys(file, clock=clock), "sbk_0_x")


def test_removed_file_holds_no_keys(file, clock):
    """Its removal revokes all."""
    key, _ = file.add("laptop", ())
    keys = StaticKeys(file, clock=clock)
    assert known(keys, key)
    file.path.unlink()
    clock.now_s += 1.0
    assert not known(keys, key)
    assert file.read() == []
