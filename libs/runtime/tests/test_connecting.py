"""How processes and commands connect to the bus."""

from __future__ import annotations

import json
import os

import pytest

from searchbus_bus import ActorSigner, ActorVerifier, new_actor_keys
from searchbus_contracts import ErrorCode, Fault
from searchbus_runtime import (
    ServiceSettings,
    SigningSettings,
    StackState,
    bus_options,
    find_bus,
    operator_options,
    write_state,
)

SEED = "SU" + "A" * 56
OTHER_SEED = "SU" + "B" * 56


@pytest.fixture(autouse=True)
def no_bus(monkeypatch):
    """Settings of the machine do not count."""
    monkeypatch.delenv("SEARCHBUS_NATS_URL", raising=False)


def running(folder) -> None:
    """A state file whose process is alive."""
    write_state(StackState("http://127.0.0.1:1", "nats://127.0.0.1:2", str(folder), os.getpid()))


def test_open_bus_needs_a_prefix_only():
    """No key, no signature."""
    assert bus_options(ServiceSettings(subject_prefix="acme")) == {
        "prefix": "acme",
        "inbox_prefix": "_INBOX",
    }


def test_settings_become_options_of_connect():
    """A service verifies; only one that signs has a signer."""
    private, public = new_actor_keys()
    given = {"nats_nkey_seed": SEED, "nats_inbox_prefix": "_INBOX_web", "actor_public_key": public}
    options = bus_options(ServiceSettings(**given))
    assert (options["nkeys_seed_str"], options["inbox_prefix"]) == (SEED, "_INBOX_web")
    assert isinstance(options["verifier"], ActorVerifier)
    assert "signer" not in options
    assert "store_nkeys_seed_str" not in options
    options = bus_options(ServiceSettings(**given, nats_store_nkey_seed=OTHER_SEED))
    assert (options["nkeys_seed_str"], options["store_nkeys_seed_str"]) == (SEED, OTHER_SEED)
    options = bus_options(SigningSettings(**given, actor_private_key=private))
    assert isinstance(options["signer"], ActorSigner)


def test_operator_of_an_open_stack_needs_no_keys(tmp_path):
    """There is no file of keys."""
    assert operator_options(tmp_path) == {}


def test_operator_of_a_secured_stack_uses_the_keys_of_the_data_folder(tmp_path):
    """Its own seed, its own inbox, and the key that signs callers."""
    private, public = new_actor_keys()
    (tmp_path / "secure").mkdir()
    (tmp_path / "secure" / "keys.json").write_text(
        json.dumps({"seeds": {"cli": SEED}, "actor_private": private, "actor_public": public})
    )
    options = operator_options(tmp_path)
    assert (options["nkeys_seed_str"], options["inbox_prefix"]) == (SEED, "_INBOX_cli")
    assert isinstance(options["signer"], ActorSigner)


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"seeds": {"cli": "x"}, "actor_private": "x"}']
)
def test_damaged_file_of_keys_names_the_remedy(tmp_path, content):
    """As a Fault, which commands print."""
    (tmp_path / "secure").mkdir()
    (tmp_path / "secure" / "keys.json").write_text(content)
    with pytest.raises(Fault, match=r"keys\.json is damaged\. Delete it") as caught:
        operator_options(tmp_path)
    assert caught.value.code == ErrorCode.UNAVAILABLE


def test_bus_of_the_environment_comes_first(tmp_path, monkeypatch):
    """Then the stack of the data folder; else there is none."""
    assert find_bus(tmp_path) is None
    running(tmp_path)
    found = find_bus(tmp_path)
    assert found is not None
    assert (found.url, found.options) == ("nats://127.0.0.1:2", {})
    monkeypatch.setenv("SEARCHBUS_NATS_URL", "nats://cluster:4222")
    found = find_bus(tmp_path)
    assert found is not None
    assert found.url == "nats://cluster:4222"


def test_keys_are_not_in_the_representation(tmp_path, monkeypatch):
    """An address is logged without its credentials."""
    monkeypatch.setenv("SEARCHBUS_NATS_URL", "nats://cluster:4222")
    monkeypatch.setenv("SEARCHBUS_NATS_NKEY_SEED", SEED)
    assert SEED not in repr(find_bus(tmp_path))
