"""Secrets that are read again when their files change."""

from __future__ import annotations

import logging

import pytest

from searchbus_runtime.secret import RETIRED_S, Secret, values_of
from searchbus_runtime.settings import ServiceSettings, load_settings

SEED = "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4"
OTHER = "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY"


class Clock:
    """Seconds that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 2  # the file is looked at each time
        return self.now_s


def refuse(value: str) -> None:
    if value == "bad":
        raise ValueError(value)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "KEY"
    path.write_text("old\n")
    return path


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def secret(file, clock):
    return Secret("key", ("old",), file, check=refuse, clock=clock)


def test_a_second_value_comes_behind_the_first(secret, file):
    """The old one is used until it is removed; both are accepted."""
    assert secret.values() == ("old",)
    file.write_text("old\nnew\n")
    assert secret.values() == secret.accepted() == ("old", "new")


def test_a_value_that_left_the_file_is_accepted_for_a_while(secret, file, clock):
    """Others that use it read their files a little later."""
    secret.values()
    file.write_text("new\n")
    assert secret.values() == ("new",)
    assert secret.accepted() == ("new", "old")
    clock.now_s += RETIRED_S
    assert secret.accepted() == ("new",)


@pytest.mark.parametrize("text", ["", "\n", "new\nbad", "[1]", "[", "[]", None])
def test_the_last_values_stay_while_the_file_cannot_be_used(secret, file, caplog, text):
    """It is logged once, without what the file holds."""
    secret.values()
    file.write_text(text) if text is not None else file.unlink()
    with caplog.at_level(logging.ERROR):
        assert [secret.values() for _ in range(3)] == [("old",)] * 3
    (record,) = caplog.records
    assert str(file) in record.getMessage()
    assert "bad" not in record.getMessage().replace(str(file), "")
    file.write_text("new")
    assert secret.values() == ("new",)


def test_values_are_lines_or_a_list():
    """As settings of one key and of several are written."""
    assert values_of(" a\nb ") == ("a", "b")
    assert values_of('["a", "b"]') == ("a", "b")


def test_settings_follow_the_file_of_a_secret_but_not_the_environment(tmp_path, monkeypatch):
    """What the environment sets comes first, and never changes."""
    path = tmp_path / "SEARCHBUS_NATS_NKEY_SEED"
    path.write_text(SEED)
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(tmp_path))
    secret = load_settings(ServiceSettings).secret("nats_nkey_seed")
    path.write_text(f"{SEED}\n{OTHER}\n")
    assert secret.values() == (SEED, OTHER)
    assert load_settings(ServiceSettings).nats_nkey_seed.get_secret_value() == f"{SEED}\n{OTHER}"
    monkeypatch.setenv("SEARCHBUS_NATS_NKEY_SEED", OTHER)
    assert load_settings(ServiceSettings).secret("nats_nkey_seed").values() == (OTHER,)
    assert load_settings(ServiceSettings).secret("actor_public_key") is None


def test_a_file_whose_name_is_in_lower_case_is_followed_too(tmp_path, monkeypatch):
    """As settings are read in any case."""
    path = tmp_path / "searchbus_nats_nkey_seed"
    path.write_text(SEED)
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(tmp_path))
    secret = load_settings(ServiceSettings).secret("nats_nkey_seed")
    path.write_text(OTHER)
    assert secret.values() == (OTHER,)
