"""`searchbus keys`: a key is shown once; lists show everything else."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from searchbus_edge.auth.command import keys


def run(tmp_path, *arguments):
    return CliRunner().invoke(keys, [*arguments, "--data", str(tmp_path)])


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
