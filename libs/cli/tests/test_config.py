"""searchbus config: what is set and where, a file to start from, faults."""

from __future__ import annotations

import json
import stat
import tomllib

import pytest

from searchbus_runtime.setting_list import listed_settings
from searchbus_testing import run_command


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Without the settings of this machine."""
    monkeypatch.chdir(tmp_path)
    for name in ("SEARCHBUS_CONFIG", "SEARCHBUS_NATS_URL", "SEARCHBUS_SECRETS_DIR"):
        monkeypatch.delenv(name, raising=False)


def shown(data, *options) -> dict[str, dict]:
    """`config show --json` by service and name."""
    done = run_command("config", "show", "--json", "--data", data, *options)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["settings"]
    return {f"{row['service']}.{row['name']}": row for row in rows}


def write(data, text):
    """The configuration file of a data folder."""
    path = data / "searchbus.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_every_setting_is_shown_with_its_origin(tmp_path, monkeypatch):
    """The variable before the file, the table before the top, the file before the default."""
    path = write(tmp_path, 'log_level = "debug"\nport = 1\n[web]\nlog_level = "error"\n')
    monkeypatch.setenv("SEARCHBUS_PORT", "90")
    found = shown(tmp_path)
    assert {f"{s}.{n}" for s, table in listed_settings().items() for n in table} <= set(found)
    assert (found["edge.port"]["value"], found["edge.port"]["place"]) == (90, "SEARCHBUS_PORT")
    assert found["edge.port"]["overrides"] == [f"{path}:2"]
    assert (found[".log_level"]["value"], found[".log_level"]["place"]) == ("debug", f"{path}:1")
    assert (found["web.log_level"]["value"], found["web.log_level"]["place"]) == (
        "error",
        f"{path}:4",
    )
    assert found["edge.host"]["from"] == "default"
    assert found[".data_dir"]["from"] == "command line"


def test_dotenv_and_files_of_secrets_are_origins(tmp_path, monkeypatch):
    """In this order, both before the configuration file."""
    write(tmp_path, '[web]\nbrave_api_keys = ["canary"]\nweb_cache_ttl_s = 1\n')
    (tmp_path / ".env").write_text("# mine\nSEARCHBUS_WEB_CACHE_TTL_S=2\n")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "SEARCHBUS_BRAVE_API_KEYS").write_text('["canary"]')
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(tmp_path / "secrets"))
    found = shown(tmp_path, "--changed")
    assert (found["web.web_cache_ttl_s"]["value"], found["web.web_cache_ttl_s"]["from"]) == (
        2,
        ".env",
    )
    assert ".env:2" in found["web.web_cache_ttl_s"]["place"]
    assert found["web.brave_api_keys"]["from"] == "secret file"
    assert len(found["web.brave_api_keys"]["overrides"]) == 1


def test_secrets_are_hidden_in_both_forms(tmp_path, monkeypatch):
    """Keys, and passwords in addresses, from the file and from the environment."""
    write(
        tmp_path,
        'nats_url = "nats://ada:canary@n:4222"\n[web]\nbrave_api_keys = ["canary"]\n'
        '[ddg]\nddg_egress = ["http://ada:can@ary@proxy.example:1", "http://canary@b:1"]\n',
    )
    monkeypatch.setenv("SEARCHBUS_STATE_KEY", "canary" * 8)
    monkeypatch.setenv("SEARCHBUS_QDRANT_URL", "http://ada:canary@q:6333")
    for options in ([], ["--json"], ["--changed"]):
        done = run_command("config", "show", "--data", tmp_path, *options)
        assert done.returncode == 0
        assert "ary@" not in done.stdout
        assert "canary" not in done.stdout
        assert "proxy.example" in done.stdout


def test_only_what_is_set_is_shown_where_that_is_asked_for(tmp_path):
    """Nothing but the data folder of the command line."""
    assert set(shown(tmp_path, "--changed")) == {".data_dir"}


def test_init_writes_a_file_that_is_in_order_and_changes_nothing(tmp_path):
    """For its owner alone; a second time only by force."""
    assert run_command("config", "init", "--data", tmp_path).returncode == 0
    path = tmp_path / "searchbus.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert all(table == {} for table in tomllib.loads(path.read_text()).values())
    assert run_command("config", "check", "--data", tmp_path).returncode == 0
    path.write_text("mine = 1\n")
    again = run_command("config", "init", "--data", tmp_path)
    assert again.returncode == 1
    assert "--force" in again.stderr
    assert path.read_text() == "mine = 1\n"
    assert run_command("config", "init", "--data", tmp_path, "--force").returncode == 0
    assert "mine" not in path.read_text()


def test_init_says_where_a_file_cannot_be_written(tmp_path):
    """With the remedy."""
    done = run_command("config", "init", "--config", tmp_path / "missing" / "x.toml")
    assert done.returncode == 1
    assert "cannot be written (No such file or directory)" in done.stderr


def test_check_names_every_fault_of_every_service_once(tmp_path):
    """A shared one as well."""
    write(tmp_path, 'log_level = "loud"\n[edge]\nport = 70000\n[ddg]\nddg_burst = 99\n')
    done = run_command("config", "check", "--data", tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 3
    assert done.stderr.count("log_level") == 1


def test_other_file_is_named_by_the_option(tmp_path, monkeypatch):
    """Its data folder counts, and its relative paths start at its folder."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "mine.toml").write_text('data_dir = "data"\nkeys_file = "keys.json"\n')
    monkeypatch.delenv("SEARCHBUS_DATA_DIR", raising=False)
    monkeypatch.setenv("SEARCHBUS_CONFIG", "")  # the option sets it in this process
    done = run_command("config", "show", "--json", "--config", tmp_path / "etc" / "mine.toml")
    found = json.loads(done.stdout)
    assert found["data_dir"] == str(tmp_path / "etc" / "data")
    (keys,) = [row for row in found["settings"] if row["name"] == "keys_file"]
    assert keys["value"] == str(tmp_path / "etc" / "keys.json")
