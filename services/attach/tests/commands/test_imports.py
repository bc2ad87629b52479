"""`searchbus attach import`."""

from __future__ import annotations

import pytest

from searchbus_attach.declare.attach_file import AttachFile
from searchbus_testing import run_command

TWO = '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://x.example"}}}'


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Import a text; the result, and the names that are attached then."""
    for name in ("SEARCHBUS_ATTACH_FILE", "SEARCHBUS_NATS_URL"):
        monkeypatch.delenv(name, raising=False)

    def run(text, encoding="utf-8", *options):
        (tmp_path / "mcp.json").write_text(text, encoding=encoding)
        done = run_command("attach", "import", tmp_path / "mcp.json", *options, data=tmp_path)
        return done, set(AttachFile(tmp_path / "attach.toml").read())

    return run


def test_a_hosts_servers_are_imported_once(imported, tmp_path):
    """The second time nothing changes."""
    done, names = imported(TWO)
    toml = tmp_path / "attach.toml"
    assert (done.stdout, names) == (f"2 servers are attached in {toml}: a, b\n", {"a", "b"})
    done, _ = imported(TWO.replace('"a"', '"c"'), "utf-16")
    assert done.stdout == f"1 server is attached in {toml}: c\n  b is unchanged\n"
    done, _ = imported(TWO)
    assert done.stdout.splitlines()[0] == f"no servers are attached in {toml}"


def test_commands_hosts_and_variables_are_shown_first(imported):
    """Without values; a dry run attaches nothing."""
    text = (
        '{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x y"], "env": {"KEY": "${TOKEN}"}},'
        ' "b": {"url": "https://u:p@x.example/mcp?s=1", "headers": {"A": "secret"}}}}'
    )
    done, names = imported(text, "utf-8", "--dry-run")
    shown = ["a: npx -y 'x y' (gets TOKEN, KEY)", "b: https://x.example/mcp"]
    assert (done.stderr.splitlines(), done.stdout, names) == (shown, "", set())
    done, names = imported(text)
    assert (done.stderr.splitlines(), names) == (shown, {"a", "b"})


def test_keys_of_searchbus_are_not_imported(imported):
    """Nothing of the file is attached then."""
    done, names = imported(TWO.replace('"x"', '"x", "args": ["${SEARCHBUS_NATS_SEED}"]'))
    assert (done.returncode, names) == (1, set())
    assert "a: SEARCHBUS_NATS_SEED is a setting of searchbus" in done.stderr


def test_another_server_of_the_same_name_stops_the_import(imported, tmp_path):
    """With the names of both files, and the remedy."""
    imported(TWO)
    done, names = imported(TWO.replace('"a"', '"c"').replace("https", "http"))
    source = tmp_path / "mcp.json"
    assert (done.returncode, names) == (1, {"a", "b"})
    assert done.stderr.endswith(
        f"error: {source}: b is attached already in {tmp_path / 'attach.toml'}, with other keys; "
        "nothing was attached. Remove it first: searchbus attach remove b, or give it another name "
        f"in {source}\n"
    )


def test_searchbus_itself_is_not_imported(imported, tmp_path):
    """A host that uses searchbus has it in its file."""
    own = '"my searchbus": {"command": "/opt/bin/searchbus", "args": ["stdio", "--toolset", "web"]}'
    done, names = imported(f'{{"mcpServers": {{{own}, "a": {{"command": "x"}}}}}}')
    assert names == {"a"}
    assert done.stdout.splitlines() == [
        f"1 server is attached in {tmp_path / 'attach.toml'}: a",
        "  my-searchbus is left out: it is searchbus itself",
    ]


def test_names_that_change_and_servers_that_are_off_are_told(imported, tmp_path):
    """Those that are off are in the file, but not attached."""
    done, names = imported(
        """{
          // of VS Code
          "servers": {"my server!": {"command": "x"}, "off": {"command": "x", "disabled": true},}
        }"""
    )
    assert names == {"my-server", "off"}
    assert done.stdout.splitlines() == [
        f"1 server is attached in {tmp_path / 'attach.toml'}: my-server",
        f"  off is disabled in {tmp_path / 'mcp.json'}: it is in attach.toml with enabled = false",
        "  'my server!' has the name my-server here",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "mcp.json: it is not JSON: "),
        ('{"mcpServers": {}}', "mcp.json has no servers, so nothing is attached. "),
        ('{"mcpServers": {"web": {"command": "x"}}}', "mcp.json: web is a toolset of searchbus"),
    ],
)
def test_what_is_wrong_names_the_file(imported, text, message):
    """With exit code 1."""
    done, _ = imported(text)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_a_file_in_another_encoding_is_named(imported):
    """With what to do."""
    done, _ = imported('{"\u00e9": 1}', "latin-1")
    assert "mcp.json is not text in UTF-8: open it in an editor and save it" in done.stderr
