"""Keys that a secured stack gave to its services, and their rotation."""

from __future__ import annotations

import json

import pytest

from searchbus_runtime.secret import STACK_KEYS, of_stack, stack_secret
from searchbus_runtime.settings import ServiceSettings

OLD, NEW, OTHER = ("SU" + letter * 56 for letter in "ABC")


@pytest.fixture
def keys(tmp_path):
    """Writes the file with a text for the seed of web."""

    def write(seed: object) -> None:
        path = tmp_path / STACK_KEYS
        path.parent.mkdir(exist_ok=True)
        found = {"seeds": {"web": seed}, "store_seeds": {}, "actor_public": "p"}
        path.write_text(json.dumps(found | {"actor_private": "s"}))

    write(OLD)
    return write


def test_a_service_follows_the_key_that_its_stack_gave_to_it(tmp_path, keys):
    """Its setting has the value of the start."""
    settings = ServiceSettings(
        data_dir=tmp_path, nats_inbox_prefix="_INBOX_web", nats_nkey_seed=OLD
    )
    secret = settings.secret("nats_nkey_seed")
    assert secret.latest() == (OLD,)
    keys(f"{OLD} {NEW}")
    assert secret.latest() == (OLD, NEW)
    keys(NEW)
    assert secret.latest() == (NEW,)


def test_a_key_from_elsewhere_stays_as_it_is(tmp_path, keys):
    """A service that uses another bus has nothing of the folder's stack."""
    assert of_stack(tmp_path, "_INBOX_web", "nats_nkey_seed", (OTHER,)) is None
    assert of_stack(tmp_path, "_INBOX_ddg", "nats_nkey_seed", (OLD,)) is None
    assert of_stack(tmp_path, "_INBOX_web", "brave_api_keys", (OLD,)) is None
    assert of_stack(None, "_INBOX_web", "nats_nkey_seed", (OLD,)) is None


@pytest.mark.parametrize("seed", [None, 5, "", []])
def test_a_damaged_file_changes_no_key(tmp_path, keys, seed):
    """The last values stay in force; a process that starts is told."""
    secret = stack_secret(tmp_path, "web", "nats_nkey_seed")
    keys(seed)
    assert secret.latest() == (OLD,)
    with pytest.raises(ValueError, match=r"nats_nkey_seed of web|is empty"):
        stack_secret(tmp_path, "web", "nats_nkey_seed")


def test_a_folder_of_an_open_stack_has_no_keys(tmp_path):
    """Nor is that a fault."""
    assert stack_secret(tmp_path, "web", "nats_nkey_seed") is None
