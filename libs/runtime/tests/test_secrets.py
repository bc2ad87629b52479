"""Secrets from files, and what a wrong one is answered."""

from __future__ import annotations

import os

import pytest

from searchbus_bus import new_actor_keys
from searchbus_runtime import ServiceSettings, SigningSettings, load_settings
from searchbus_runtime.settings import forget_secrets

SEED = "SU" + "A" * 56


def test_secrets_are_files_named_like_their_variables(tmp_path, monkeypatch):
    """The environment wins over a file."""
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(tmp_path))
    (tmp_path / "SEARCHBUS_NATS_NKEY_SEED").write_text(SEED + "\n")
    (tmp_path / "SEARCHBUS_NATS_INBOX_PREFIX").write_text("_INBOX_web")
    assert load_settings(SigningSettings).nats_nkey_seed.get_secret_value() == SEED
    monkeypatch.setenv("SEARCHBUS_NATS_INBOX_PREFIX", "_INBOX_x")
    assert load_settings(SigningSettings).nats_inbox_prefix == "_INBOX_x"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("NATS_NKEY_SEED", "garbage-canary", "not the seed of a user's nkey"),
        ("ACTOR_PUBLIC_KEY", "xx", "not a key of the Actor header"),
        ("ACTOR_PRIVATE_KEY", "garbage-canary", "not a key of the Actor header"),
        ("SECRETS_DIR", "/nowhere/at/all", "there is no folder"),
    ],
)
def test_wrong_secret_is_refused_with_the_remedy_and_not_repeated(
    monkeypatch, capsys, name, value, said
):
    """Exit code 2, the variable's name, no traceback, no secret."""
    monkeypatch.setenv(f"SEARCHBUS_{name}", value)
    with pytest.raises(SystemExit) as end:
        load_settings(SigningSettings)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert f"SEARCHBUS_{name}" in error
    assert said in error
    assert "canary" not in error


def test_keys_that_the_command_makes_are_accepted(monkeypatch):
    """A process that signs reads both halves."""
    private, public = new_actor_keys()
    monkeypatch.setenv("SEARCHBUS_ACTOR_PRIVATE_KEY", private)
    monkeypatch.setenv("SEARCHBUS_ACTOR_PUBLIC_KEY", public)
    assert load_settings(SigningSettings).actor_public_key == public


def test_private_key_is_read_by_those_who_sign_only(monkeypatch):
    """Any other service ignores it, also where it is set by mistake."""
    monkeypatch.setenv("SEARCHBUS_ACTOR_PRIVATE_KEY", "not a key at all")
    assert "actor_private_key" not in load_settings(ServiceSettings).model_dump()


@pytest.mark.parametrize("name", ["SEARCHBUS_NATS_NKEY_SEED", "searchbus_nats_nkey_seed"])
def test_secret_that_was_read_is_not_in_the_environment_of_children(monkeypatch, name):
    """Names are read in any case; other settings stay."""
    monkeypatch.setenv(name, SEED)
    monkeypatch.setenv("SEARCHBUS_SUBJECT_PREFIX", "other")
    loaded = load_settings(ServiceSettings)
    assert loaded.nats_nkey_seed is not None
    forget_secrets(ServiceSettings)
    assert name not in os.environ
    assert os.environ["SEARCHBUS_SUBJECT_PREFIX"] == "other"
