"""Settings: all faults at once, secrets never shown, files and overrides."""

from __future__ import annotations

import json
import os

import pytest
from pydantic import SecretStr, model_validator

from searchbus_bus import ActorSigner, ActorVerifier, new_actor_keys
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.services import Service
from searchbus_runtime import (
    FollowingSettings,
    ServiceSettings,
    SigningSettings,
    StackState,
    bus_options,
    find_bus,
    load_settings,
    stack_options,
    write_state,
)
from searchbus_runtime.settings import forget_secrets


class Settings(ServiceSettings):
    """Settings of a service of the tests."""

    key: SecretStr | None = None
    workers: int = 1
    hosts: tuple[str, ...] = ()


def test_every_fault_is_reported_at_once(monkeypatch, capsys):
    """One start shows all that is wrong, by the names that the user sets."""
    monkeypatch.setenv("SEARCHBUS_DRAIN_TIMEOUT_S", "soon")
    monkeypatch.setenv("SEARCHBUS_LOG_LEVEL", "loud")
    monkeypatch.setenv("SEARCHBUS_WORKERS", "many")
    with pytest.raises(SystemExit) as caught:
        load_settings(Settings)
    assert caught.value.code == 2
    text = capsys.readouterr().err
    assert len(text.splitlines()) == 3
    for name, given in (("DRAIN_TIMEOUT_S", "soon"), ("LOG_LEVEL", "loud"), ("WORKERS", "many")):
        assert f"SEARCHBUS_{name}" in text
        assert given in text


class Together(ServiceSettings):
    """Two settings of which each needs the other."""

    address: str = ""
    password: str = ""

    @model_validator(mode="after")
    def _belong_together(self) -> Together:
        if bool(self.address) != bool(self.password):
            raise ValueError("SEARCHBUS_ADDRESS and SEARCHBUS_PASSWORD belong together")
        return self


def test_fault_of_several_settings_shows_no_values(monkeypatch, capsys):
    """They may be secrets, and no single one of them is wrong."""
    monkeypatch.setenv("SEARCHBUS_PASSWORD", "sesame")
    with pytest.raises(SystemExit):
        load_settings(Together)
    printed = capsys.readouterr().err.splitlines()
    assert printed[0] == "error: SEARCHBUS_ADDRESS and SEARCHBUS_PASSWORD belong together"
    assert "sesame" not in "".join(printed)


def test_value_that_must_be_json_is_named(monkeypatch, capsys):
    """A list without brackets is a usual slip; no trace back, and no restart."""
    monkeypatch.setenv("SEARCHBUS_HOSTS", "a,b")
    with pytest.raises(SystemExit) as caught:
        load_settings(Settings)
    assert caught.value.code == 2
    assert "SEARCHBUS_HOSTS: must be JSON (Expecting value" in capsys.readouterr().err


def test_dotenv_is_read_and_the_environment_wins(monkeypatch, tmp_path):
    """`.env` in the working folder gives values; the environment overrides them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("SEARCHBUS_WORKERS=3\nSEARCHBUS_LOG_LEVEL=debug\n")
    monkeypatch.setenv("SEARCHBUS_WORKERS", "4")
    settings = load_settings(Settings)
    assert (settings.workers, settings.log_level) == (4, "debug")
    assert load_settings(Settings, workers=5).workers == 5


def test_trace_file_needs_a_data_folder_and_no_collector(tmp_path):
    """A collector replaces the local file."""
    assert Settings().trace_file is None
    assert Settings(data_dir=tmp_path).trace_file == tmp_path / "traces.jsonl"
    assert Settings(data_dir=tmp_path, otlp_endpoint="http://127.0.0.1:1").trace_file is None


def test_secret_is_not_in_the_representation():
    """A key that is logged by accident stays hidden."""
    assert "canary" not in repr(Settings(key="canary"))


def test_expected_services_are_the_declared_ones_unless_they_are_named():
    """By their names on the bus; a service that serves nothing cannot be away."""
    declared = [
        Service(name="web", toolsets=("web",)),
        Service(name="edge", toolsets=("connector",), queue_group="connector"),
        Service(name="cli"),
    ]
    assert FollowingSettings(_env_file=None).expected(declared) == ("web", "connector")
    named = FollowingSettings(_env_file=None, required_services=("ddg",))
    assert named.expected(declared) == ("ddg",)
    assert FollowingSettings(_env_file=None, required_services=()).expected(declared) == ()


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
    assert (options["seeds"].next(), options["inbox_prefix"]) == (SEED, "_INBOX_web")
    assert isinstance(options["verifier"], ActorVerifier)
    assert "signer" not in options
    assert "store_seeds" not in options
    options = bus_options(ServiceSettings(**given, nats_store_nkey_seed=OTHER_SEED))
    assert (options["seeds"].next(), options["store_seeds"].next()) == (SEED, OTHER_SEED)
    options = bus_options(SigningSettings(**given, actor_private_key=private))
    assert isinstance(options["signer"], ActorSigner)


def test_operator_of_an_open_stack_needs_no_keys(tmp_path):
    """There is no key file."""
    assert stack_options(tmp_path) == {}


def test_operator_of_a_secured_stack_uses_the_keys_of_the_data_folder(tmp_path):
    """Its own seed, its own inbox, and the key that signs callers."""
    private, public = new_actor_keys()
    (tmp_path / "secure").mkdir()
    (tmp_path / "secure" / "keys.json").write_text(
        json.dumps({"seeds": {"cli": SEED}, "actor_private": private, "actor_public": public})
    )
    options = stack_options(tmp_path)
    assert (options["seeds"].next(), options["inbox_prefix"]) == (SEED, "_INBOX_cli")
    assert isinstance(options["signer"], ActorSigner)


def test_client_on_standard_input_joins_a_secured_stack_as_an_edge(tmp_path):
    """With its buckets: costly calls are refused where nobody counts them."""
    private, public = new_actor_keys()
    seeds, store_seeds = {"cli": SEED, "edge": OTHER_SEED}, {"edge": SEED}
    (tmp_path / "secure").mkdir()
    (tmp_path / "secure" / "keys.json").write_text(
        json.dumps({
            "seeds": seeds, "store_seeds": store_seeds,
            "actor_private": private, "actor_public": public,
        })
    )  # fmt: skip
    options = stack_options(tmp_path, "edge")
    found = options["seeds"].next(), options["store_seeds"].next(), options["inbox_prefix"]
    assert found == (OTHER_SEED, SEED, "_INBOX_edge")


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"seeds": {"cli": "x"}, "actor_private": "x"}']
)
def test_damaged_file_of_keys_names_the_remedy(tmp_path, content):
    """As a Fault, which commands print."""
    (tmp_path / "secure").mkdir()
    (tmp_path / "secure" / "keys.json").write_text(content)
    with pytest.raises(Fault, match=r"keys\.json is damaged\. Delete it") as caught:
        stack_options(tmp_path)
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


OTHER_SEED = "SU" + "A" * 56


def test_secrets_are_files_named_like_their_variables(tmp_path, monkeypatch):
    """The environment wins over a file."""
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(tmp_path))
    (tmp_path / "SEARCHBUS_NATS_NKEY_SEED").write_text(OTHER_SEED + "\n")
    (tmp_path / "SEARCHBUS_NATS_INBOX_PREFIX").write_text("_INBOX_web")
    assert load_settings(SigningSettings).nats_nkey_seed.get_secret_value() == OTHER_SEED
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
    monkeypatch.setenv(name, OTHER_SEED)
    monkeypatch.setenv("SEARCHBUS_SUBJECT_PREFIX", "other")
    loaded = load_settings(ServiceSettings)
    assert loaded.nats_nkey_seed is not None
    forget_secrets(ServiceSettings)
    assert name not in os.environ
    assert os.environ["SEARCHBUS_SUBJECT_PREFIX"] == "other"
