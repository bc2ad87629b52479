"""`searchbus attach`: the file of servers by command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from searchbus_attach.commands.main import newer_part
from searchbus_attach.declare.attach_file import AttachFile
from searchbus_testing import run_command

from ..conftest import PROGRAM, children


@pytest.fixture
def attach(tmp_path, monkeypatch):
    for name in ("SEARCHBUS_ATTACH_FILE", "SEARCHBUS_NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: run_command("attach", *arguments, data=tmp_path)


def added(folder: Path) -> dict:
    return dict(AttachFile(folder / "attach.toml").read_all().servers)


def test_servers_are_added_listed_shown_and_removed(attach, tmp_path):
    """Without a running stack."""
    added_command = ("npx", "-y", "server-files", "--all")
    done = attach("add", "files", "--env", "KEY=${KEY}", "--", *added_command)
    assert done.returncode == 0, done.stderr
    assert added(tmp_path)["files"].args == ("-y", "server-files", "--all")
    again = attach("add", "files", "--env", "KEY=${KEY}", "--", *added_command)
    assert again.stdout.startswith("files is attached already in ")
    done = attach(
        "add", "far", "--url", "https://x.example/mcp", "--header", "Authorization: Bearer word"
    )
    assert done.returncode == 0, done.stderr
    assert added(tmp_path)["far"].headers == {"Authorization": "Bearer word"}
    listed = attach("list")
    assert listed.stdout.splitlines() == [
        "server  state        target",
        "files   not running  npx",
        "far     not running  https://x.example/mcp",
    ]
    assert "Start one: searchbus up" in listed.stderr
    shown = attach("show", "far")
    assert "headers: Authorization=***" in shown.stdout
    assert "word" not in shown.stdout
    assert "Start one: searchbus up" in shown.stderr
    assert attach("show", "files").stdout.splitlines()[:4] == [
        "name: files", "command: npx", "args: -y server-files --all", "env: KEY=${KEY}",
    ]  # fmt: skip
    assert json.loads(attach("show", "files", "--json").stdout)["keys"]["env"] == {"KEY": "${KEY}"}
    assert attach("remove", "far").returncode == 0
    assert set(added(tmp_path)) == {"files"}
    assert attach("remove", "files").returncode == 0
    emptied = attach("list")
    assert (emptied.stdout, "no server is attached" in emptied.stderr) == ("", True)
    assert attach("remove", "files").stderr.endswith("attach.toml.\n")


def test_a_program_that_is_not_there_is_told(attach, tmp_path):
    """It may be installed later, so the server is attached nevertheless."""
    done = attach("add", "broken", "--", "nosuchprogram")
    assert (done.returncode, set(added(tmp_path))) == (0, {"broken"})
    assert done.stderr.startswith("warning: there is no program nosuchprogram here; install it")
    assert attach("add", "good", "--", sys.executable).stderr == ""
    assert "for a URL" in attach("add", "odd", "--transport", "sse", "--", "true").stderr


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("x", "npx", "-y", "a b"), "x -- npx -y 'a b'"),
        (
            ("--env", "A=b", "--policy=warn", "x", "npx", "-y"),
            "--env A=b --policy=warn x -- npx -y",
        ),
    ],
)
def test_a_command_without_dashes_before_it_is_shown_with_them(attach, given, line):
    """Its options would be those of `add`."""
    done = attach("add", *given)
    assert done.returncode == 2
    words = " ".join(done.stderr.replace("\u2502", " ").split())
    assert f"No such option: -y. Write -- before the command: searchbus attach add {line}" in words


def test_a_wrong_option_of_add_itself_is_only_named(attach):
    """Nothing says that -- is missing."""
    stderr = attach("add", "x", "--ulr", "https://x.example").stderr
    assert "No such option: --ulr" in stderr
    assert "Write --" not in stderr


def test_the_command_that_checks_a_new_server_can_be_copied(attach, tmp_path, monkeypatch):
    """It names the same file: by its options, and not where the environment does."""
    file = tmp_path / "my servers.toml"
    options = ("--url", "https://x.example/mcp", "--data", tmp_path)
    done = attach("add", "far", *options, "--file", file)
    assert done.stdout.endswith(f"searchbus attach test far --file '{file}' --data {tmp_path}\n")
    monkeypatch.setenv("SEARCHBUS_ATTACH_FILE", str(file))
    done = attach("add", "near", *options)
    assert done.stdout.endswith(f"searchbus attach test near --data {tmp_path}\n")
    done = attach("add", "third", *options[:2])
    assert done.stdout.endswith("searchbus attach test third\n")


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("show", "a"),
        ("test", "a"),
        ("diff", "a"),
        ("approve", "a", "--all"),
        ("remove", "a"),
    ],
)
def test_a_named_file_that_is_not_there_is_an_error(attach, tmp_path, monkeypatch, words):
    """It is not an empty one; only `add` and `import` make it."""
    file = tmp_path / "other.toml"
    done = attach(*words, "--file", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"There is no file {file}. Name another one by --file" in done.stderr
    monkeypatch.setenv("SEARCHBUS_ATTACH_FILE", str(file))
    assert f"There is no file {file}." in attach(*words).stderr
    assert attach("add", "b", "--", "true").returncode == 0
    assert attach("list").returncode == 0


def test_a_server_is_added_with_its_sign_in(attach, tmp_path):
    """A secret that is in the file nevertheless is not shown."""
    keys = ("type=client_credentials", "issuer=https://x.example", "client_id=searchbus")
    options = [word for key in (*keys, "scopes=read write") for word in ("--auth", key)]
    done = attach(
        "add", "far", "--url", "https://x.example/mcp", *options, "--auth", "client_secret=word"
    )
    assert done.returncode == 0, done.stderr
    auth = added(tmp_path)["far"].auth
    assert (auth.client_secret, auth.scopes) == ("word", ("read", "write"))
    assert "word" not in attach("show", "far").stdout
    done = attach(
        "add", "notes", "--url", "https://y.example/mcp", "--state", "per_user",
        "--auth", "type=authorization_code",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert added(tmp_path)["notes"].state == "per_user"
    assert (
        "z.auth: there is no key 'typ'"
        in attach("add", "z", "--url", "https://z.example", "--auth", "typ=a").stderr
    )


def test_views_are_listed_and_shown(attach, tmp_path):
    """As the file has them; what has no effect is told while the stack runs."""
    attach("add", "files", "--", "npx")
    path = tmp_path / "attach.toml"
    view = "[servers.files.view]\ndeny = ['rm']\n[views.reading]\nallow = ['files__*']\n"
    path.write_text(f"{path.read_text()}{view}")
    assert attach("list").stdout.splitlines()[1:] == [
        "files    not running  npx",
        "reading  not running  a view",
    ]
    assert 'view.deny: ["rm"]' in attach("show", "files").stdout
    assert json.loads(attach("show", "files", "--json").stdout)["view"] == {"deny": ["rm"]}
    shown = attach("show", "reading").stdout.splitlines()
    assert shown == ["name: reading", 'allow: ["files__*"]', "state: not running"]
    found = json.loads(attach("show", "reading", "--json").stdout)
    assert found == {"view": {"name": "reading", "allow": ["files__*"]}, "state": "not running"}
    assert "Did you mean 'reading'?" in attach("show", "readin").stderr
    assert "reading is a view of several servers" in attach("test", "reading").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "a"), "either 'command' or 'url'"),
        (("add", "web", "--url", "https://x.example"), "toolset of searchbus"),
        (("add", "a", "--url", "https://x.example", "--header", "word"), "Name: value"),
        (("add", "a", "--path", "/srv", "--", "x"), "'paths' needs confine = \"files\""),
        (("add", "a", "--confine", "all", "--", "x"), "Give one of: files, none, processes"),
        (("add", "a", "--url", "https://x.example", "--policy", "trust"), "policy"),
        (("add", "a", "ftp://x.example"), "'url' must start with http:// or https://"),
        (("remove", "a"), "There is no server a"),
        (("show", "a"), "There is no server a: none is attached in "),
        (("test", "a"), "Attach one: searchbus attach add NAME -- COMMAND"),
        (("approve", "a"), "There is no server a"),
        (("logout", "a"), "There is no server a"),
        (("import", "/no/such/file"), "/no/such/file cannot be used (No such file"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(attach, arguments, message):
    """With exit code 1."""
    done = attach(*arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "word" not in done.stderr


def test_a_command_is_confined_from_the_start(attach, tmp_path):
    """Without an editor for the file of servers."""
    done = attach("add", "a", "--confine", "files", "--path", "/srv", "--path", "~/.npm", "--", "x")
    assert done.returncode == 0, done.stderr
    found = added(tmp_path)["a"]
    assert (found.confine, found.paths) == ("files", ("/srv", "~/.npm"))


def test_a_server_is_tried(attach):
    """Its tools, and those that cannot be listed."""
    tools = [{"name": "good", "inputSchema": {"type": "object"}}, {"name": "bad"}]
    how = json.dumps({"tools": tools})
    attach("add", "plain", "--", sys.executable, "-I", "-S", PROGRAM, how)
    done = attach("test", "plain")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "starting plain …\n"
    assert "plain works: plain 1.0, MCP 2025-06-18, 1 tools" in done.stdout
    assert "bad cannot be listed: its input schema" in done.stdout
    done = attach("test", "plain", "--json")
    assert (json.loads(done.stdout)["tools"], done.stderr) == (["good"], "")
    attach("add", "broad", "--", sys.executable, "-I", "-S", PROGRAM.with_name("broad_server.py"))
    assert ", 10 tools, 3 prompts, 2 resources in " in attach("test", "broad").stdout
    assert children() == []


def test_a_change_is_shown_and_approved(attach, tmp_path):
    """By its digits."""
    attach("add", "plain", "--", sys.executable, "-I", "-S", PROGRAM)
    assert attach("diff", "plain").stdout.count("it is new") == 6
    first = attach("diff", "plain").stdout.split()[0]
    assert attach("approve", "plain", first).returncode == 0
    assert attach("diff", "plain").stdout.count("it is new") == 5
    second = attach("diff", "plain").stdout.split()[0]
    assert attach("refuse", "plain", second).stdout.endswith(" is refused\n")
    assert attach("diff", "plain").stdout.count("it is new; refused") == 1
    assert "name the digits of what you refuse" in attach("refuse", "plain").stderr
    assert attach("approve", "plain", "--all").returncode == 0
    for same in (attach("diff", "plain"), attach("approve", "plain", "--all")):
        assert (same.stdout, same.stderr) == ("", "nothing differs from what was approved\n")
    assert "searchbus attach diff plain" in attach("approve", "plain").stderr


def test_commands_that_ask_no_server_do_without_the_sdk():
    """Its import takes longer than all the rest."""
    code = "import sys, searchbus_attach.commands.main; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


TWO = '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://x.example"}}}'


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Import a text; the result, and the names that are attached then."""
    for name in ("SEARCHBUS_ATTACH_FILE", "SEARCHBUS_NATS_URL"):
        monkeypatch.delenv(name, raising=False)

    def run(text, encoding="utf-8", *options):
        (tmp_path / "mcp.json").write_text(text, encoding=encoding)
        done = run_command("attach", "import", tmp_path / "mcp.json", *options, data=tmp_path)
        return done, set(added(tmp_path))

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


def test_address_needs_no_option_and_several_servers_are_removed(attach, tmp_path):
    """As one types it first."""
    assert attach("add", "near", "https://near.example/mcp").returncode == 0
    assert attach("add", "far", "http://127.0.0.1:9/mcp").returncode == 0
    assert added(tmp_path)["near"].url == "https://near.example/mcp"
    assert attach("remove", "near", "far").returncode == 0
    assert added(tmp_path) == {}


@pytest.mark.parametrize("command", ["restart", "logs", "allow", "deny"])
def test_what_needs_the_service_says_that_it_does_not_run(attach, command):
    """And how to start it."""
    done = attach(command, "files")
    assert done.returncode != 0
    assert "searchbus up" in done.stderr


@pytest.mark.parametrize(
    ("before", "now", "more"),
    [
        ("", "a\nb\n", "a\nb\n"),
        ("a\nb\n", "a\nb\n", ""),
        ("a\nb\n", "b\nc\n", "b\nc\n"),
        ("x" * 3000 + "end\n", "x" * 2500 + "end\nmore\n", "more\n"),
        ("old\n", "", ""),
    ],
    ids=["first", "same", "another file", "moved on", "emptied"],
)
def test_followed_log_shows_what_was_added(before, now, more):
    """Each reading is the end of a log that goes on."""
    assert newer_part(before, now) == more
