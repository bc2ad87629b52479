"""`searchbus keys`: a key is shown once; lists show everything else."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from searchbus_cli.main import app
from searchbus_edge.auth.identity import UnauthenticatedError
from searchbus_edge.auth.static_keys import KeyFile, StaticKeys


def run(tmp_path, *arguments):
    return CliRunner().invoke(app, ["keys", *arguments, "--data", str(tmp_path)])


def test_keys_are_added_listed_and_revoked(tmp_path):
    """By their id, in the data folder."""
    made = run(tmp_path, "add", "laptop", "--role", "ROLE_A", "--role", "B", "--days", "90")
    key = made.stdout.strip()
    assert made.exit_code == 0
    assert key.startswith("sbk_")
    (row,) = json.loads(run(tmp_path, "list", "--json").stdout)
    assert (row["name"], row["roles"]) == ("laptop", ["A", "B"])
    assert row["expires_s"] - row["created_s"] == 90 * 86_400
    listed = run(tmp_path, "list").stdout
    assert row["id"] in listed
    assert key not in listed
    assert run(tmp_path, "revoke", row["id"]).exit_code == 0
    emptied = run(tmp_path, "list")
    assert (emptied.stdout, "there is no key" in emptied.stderr) == ("", True)


def test_a_key_is_rotated_by_its_name(tmp_path):
    """Both are valid, with the same roles, until the old one is retired."""
    old = run(tmp_path, "add", "laptop", "--role", "A").stdout.strip()
    run(tmp_path, "add", "other")
    new = run(tmp_path, "rotate", "laptop").stdout.strip()
    keys_of_all = StaticKeys(KeyFile(tmp_path / "keys.json"))
    assert keys_of_all.verify(old).actor.roles == keys_of_all.verify(new).actor.roles == ("A",)
    assert run(tmp_path, "retire", "laptop").exit_code == 0
    fresh = StaticKeys(KeyFile(tmp_path / "keys.json"))
    assert fresh.verify(new).actor.roles == ("A",)
    with pytest.raises(UnauthenticatedError):
        fresh.verify(old)
    names = [row["name"] for row in json.loads(run(tmp_path, "list", "--json").stdout)]
    assert sorted(names) == ["laptop", "other"]
    for command in ("rotate", "retire"):
        refused = run(tmp_path, command, "nobody")
        assert refused.exit_code == 1
        assert "searchbus keys list" in refused.stderr


def test_unknown_id_says_where_to_look(tmp_path):
    """Exit code 1."""
    refused = run(tmp_path, "revoke", "nobody")
    assert refused.exit_code == 1
    assert "searchbus keys list" in refused.stderr


@pytest.mark.parametrize("command", [("add", "x"), ("list",), ("revoke", "x")])
def test_damaged_file_is_reported_and_kept(tmp_path, command):
    """Without a traceback; its content may be repaired."""
    file = tmp_path / "keys.json"
    file.write_text("{")
    refused = run(tmp_path, *command)
    assert refused.exit_code == 1
    assert f"error: {file} is not a valid keys file" in refused.stderr
    assert file.read_text() == "{"


def test_a_key_expires_within_ten_years(tmp_path):
    """A date after the year 9999 could not be listed."""
    refused = run(tmp_path, "add", "laptop", "--days", "9999999")
    assert refused.exit_code == 2
    assert "--days" in refused.output
    run(tmp_path, "add", "laptop", "--days", "3660")
    assert run(tmp_path, "list").exit_code == 0


def test_names_have_no_effect_on_a_terminal(tmp_path):
    """An operator of the console may have chosen them."""
    KeyFile(tmp_path / "keys.json").add("a\x1b]0;b\nc", ("\x9b2J",))
    (line,) = run(tmp_path, "list").stdout.splitlines()
    assert "a\\x1b]0;b\\nc  \\x9b2J" in line


@pytest.mark.parametrize("command", ["rotate", "retire", "revoke"])
def test_an_unknown_key_makes_no_folder(tmp_path, command):
    """Its name was mistyped."""
    assert run(tmp_path / "mistyped", command, "nobody").exit_code == 1
    assert list(tmp_path.iterdir()) == []
