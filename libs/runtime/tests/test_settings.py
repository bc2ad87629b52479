"""Settings: all faults at once, secrets never shown, files and overrides."""

from __future__ import annotations

import pytest
from pydantic import SecretStr, model_validator

from searchbus_contracts.services import Service
from searchbus_runtime import FollowingSettings, ServiceSettings, load_settings


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
    assert text.startswith("3 setting(s) are wrong")
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
    assert printed[1] == "  SEARCHBUS_ADDRESS and SEARCHBUS_PASSWORD belong together"
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
