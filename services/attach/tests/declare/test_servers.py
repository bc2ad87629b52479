"""The keys of a server: what is wrong is named, with the nearest right one."""

from __future__ import annotations

import pytest

from searchbus_attach.declare.servers import own_folders, parse_server, variable
from searchbus_attach.declare.views import parse_selection, parse_view
from searchbus_attach.errors import ServerDeclarationError


def test_a_command_and_a_url_have_their_defaults():
    """A remote server's changes are held, a local one's are logged."""
    local = parse_server("files", {"command": "npx", "args": ["-y", "x"]})
    remote = parse_server("far", {"url": "https://u:p@mcp.example.org/mcp?key=s"})
    assert (local.change_policy, remote.change_policy) == ("warn", "hold")
    assert (local.target, remote.target) == ("npx", "https://mcp.example.org/mcp")


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("a", {"comand": "x"}, "Did you mean 'command'"),
        ("a", {"command": "x", "header": {}}, "Did you mean 'headers'"),
        ("a", {"command": "x", "zzz": 1}, "Known: command"),
        ("a", {}, "either 'command' or 'url'"),
        ("a", {"command": "x", "url": "https://x.example"}, "either 'command' or 'url'"),
        ("a", {"url": "ftp://x.example"}, "http://"),
        ("a", {"url": "https://x.example", "args": ["x"]}, "'args' is for a command"),
        ("a", {"command": "x", "headers": {"a": "b"}}, "'headers' is for a URL"),
        ("a", {"command": "x", "transport": "sse"}, "'transport' is for a URL"),
        ("a", {"command": "x", "args": "y"}, "args"),
        ("a", {"command": "x", "policy": "trust"}, "policy"),
        ("a", {"command": "x", "call_timeout_s": 0}, "call_timeout_s"),
        ("a b", {"command": "x"}, "cannot be a name"),
        ("x" * 41, {"command": "x"}, "cannot be a name"),
        ("a__b", {"command": "x"}, "without '__'"),
        ("a_", {"command": "x"}, "without '__'"),
        ("a", {"url": "http://[::1"}, "not an address"),
        (
            "a",
            {
                "url": "https://x.example",
                "auth": {"type": "authorization_code", "issuer": "http://[::1"},
            },
            "'issuer' is not an address",
        ),
    ],
)
def test_a_wrong_key_is_named(name, keys, message):
    """With what is right."""
    with pytest.raises(ServerDeclarationError, match=message):
        parse_server(name, keys)


REMOTE = {"url": "https://x.example"}


@pytest.mark.parametrize(
    "keys",
    [
        {"command": "${SEARCHBUS_NATS_SEED}"},
        {"command": "x", "args": ["--key=${SEARCHBUS_NATS_SEED}"]},
        {"command": "x", "env": {"A": "a${env:SEARCHBUS_NATS_SEED}"}},
        {"command": "x", "pass_env": ["HOME", "SEARCHBUS_NATS_SEED"]},
        {"command": "x", "cwd": "/srv/${SEARCHBUS_NATS_SEED}"},
        {"url": "https://x.example/${SEARCHBUS_NATS_SEED}"},
        {**REMOTE, "headers": {"A": "${input:SEARCHBUS_NATS_SEED}"}},
        {**REMOTE, "headers": {"A": "${searchbus_nats_seed}"}},
        {**REMOTE, "auth": {"type": "client_credentials", "client_id": "${SEARCHBUS_NATS_SEED}"}},
    ],
)
def test_no_server_gets_a_setting_of_searchbus(keys):
    """A file from elsewhere would send the keys of the bus to a stranger."""
    with pytest.raises(
        ServerDeclarationError, match=r"^a: (?i:SEARCHBUS_NATS_SEED) is a setting of"
    ):
        parse_server("a", keys)


def test_variables_are_replaced_where_values_are_used(monkeypatch, tmp_path):
    """From a file of the secrets first, then from the environment."""
    monkeypatch.setenv("TOKEN", "of the environment")
    monkeypatch.setenv("OTHER", "other")
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(tmp_path))
    (tmp_path / "TOKEN").write_text("of the file\r\n")
    remote = parse_server(
        "far", {"url": "https://x.example/${OTHER}", "headers": {"A": "Bearer ${TOKEN}"}}
    ).expanded(variable)
    assert (remote.url, remote.headers) == ("https://x.example/other", {"A": "Bearer of the file"})
    local = parse_server("near", {"command": "x", "env": {"A": "${env:OTHER}"}}).expanded(variable)
    assert local.env == {"A": "other"}


def test_a_variable_without_a_value_is_named():
    """The server cannot be started then."""
    server = parse_server("a", {"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}})
    with pytest.raises(
        ServerDeclarationError, match=r"^\$\{NOT_SET_ANYWHERE\} has no value\. Set NOT_"
    ):
        server.expanded({}.get)


def test_an_input_of_vs_code_is_named_as_it_stands_in_the_file():
    """VS Code asks for it, searchbus does not."""
    server = parse_server("a", {"command": "x", "env": {"KEY": "${input:key}"}})
    assert server.expanded({"key": "word"}.get).env == {"KEY": "word"}
    message = r"^\$\{input:key\} has no value; .* inputs of VS Code\. Set key in the environment"
    with pytest.raises(ServerDeclarationError, match=message):
        server.expanded({}.get)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"policy": "holdd"},
            "policy has a value that is not allowed. Give one of: accept, hold, warn.",
        ),
        (
            {"policy": "zzz"},
            "policy has a value that is not allowed. Give one of: accept, hold, warn.",
        ),
        ({"state": 3}, "state is an integer. Give a string."),
        ({"args": "-y"}, "args is a string. Give a list."),
        (
            {"args": ["a", 80]},
            "args[1] is an integer. Give a string.",
        ),
        ({"args": [["a"]]}, "args[0] is a list. Give a string."),
        ({"env": {"A": "a", "PORT": 80}}, "env.PORT is not text. Quote it."),
        ({"env": ["A=a"]}, "env is a list. Give a table."),
        ({"command": ["x"]}, "command is a list. Give a string."),
        ({"enabled": "no"}, "enabled is a string. Give true or false."),
        ({"max_callers": 0}, "max_callers is out of its limits. Give an integer of at least 1."),
        (
            {"idle_s": "5"},
            "idle_s is a string. Give a number.",
        ),
        (
            {"memory_mib": 1},
            "memory_mib is out of its limits. Give an integer of at least 16.",
        ),
        (
            {"call_timeout_s": 0},
            "call_timeout_s is out of its limits. Give a number of more than 0.",
        ),
    ],
)
def test_a_wrong_value_of_a_server_is_named(keys, message):
    """With what is right."""
    with pytest.raises(ServerDeclarationError) as error:
        parse_server("a", {"command": "x", **keys})
    assert str(error.value) == f"a: {message}"


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        ({}, "auth.type is missing. Give it."),
        ("none", "auth is a string. Give a table."),
        (
            {"type": "oauth"},
            "auth.type has a value that is not allowed. Give one of: api_key, authorization_code, client_credentials, token_exchange.",
        ),
        (
            {"type": "authorization_code", "issuer": "x" * 2001},
            "auth.issuer is out of its limits. Give a string of at most 2000 characters.",
        ),
    ],
)
def test_a_wrong_value_of_a_table_in_a_server_is_named(auth, message):
    """By the names of both."""
    with pytest.raises(ServerDeclarationError) as error:
        parse_server("a", {"url": "https://x.example", "auth": auth})
    assert str(error.value) == f"a: {message}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"allow": "read_*"}, ": allow is a string. Give a list."),
        ({"costly": 1}, ": costly is an integer. Give true or false."),
        (
            {"tools": {"t": {"title": 5}}},
            ".tools.t: title is an integer. Give a string.",
        ),
        (
            {"tools": {"t": {"annotations": {"readOnlyHint": "yes"}}}},
            ".tools.t: annotations.readOnlyHint is a string. Give true or false.",
        ),
    ],
)
def test_a_wrong_value_of_a_view_is_named(keys, message):
    """As for servers."""
    with pytest.raises(ServerDeclarationError) as error:
        parse_view("a", keys)
    assert str(error.value) == f"a.view{message}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "allow is missing. Give it."),
        ({"allow": []}, "allow is out of its limits. Give a list of at least 1 items."),
    ],
)
def test_a_wrong_value_of_a_selection_is_named(keys, message):
    """As for servers."""
    with pytest.raises(ServerDeclarationError) as error:
        parse_selection("reading", keys)
    assert str(error.value) == f"views.reading: {message}"


def test_configuration_file_beside_the_data_folder_is_closed_to_attached_servers(
    tmp_path, monkeypatch
):
    """It may hold keys."""
    monkeypatch.setenv("SEARCHBUS_CONFIG", str(tmp_path / "searchbus.toml"))
    (tmp_path / "searchbus.toml").write_text("")
    assert tmp_path / "searchbus.toml" in own_folders()
    monkeypatch.delenv("SEARCHBUS_CONFIG")
    assert tmp_path / "searchbus.toml" not in own_folders()
