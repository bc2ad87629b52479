"""The keys of a server: what is wrong is named, with the nearest right one."""

from __future__ import annotations

import pytest

from searchbus_attach.declare.servers import DeclarationFault, parse_server, variable


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
    with pytest.raises(DeclarationFault, match=message):
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
    with pytest.raises(DeclarationFault, match=r"^a: (?i:SEARCHBUS_NATS_SEED) is a setting of"):
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
    with pytest.raises(DeclarationFault, match=r"^\$\{NOT_SET_ANYWHERE\} has no value\. Set NOT_"):
        server.expanded({}.get)


def test_an_input_of_vs_code_is_named_as_it_stands_in_the_file():
    """VS Code asks for it, searchbus does not."""
    server = parse_server("a", {"command": "x", "env": {"KEY": "${input:key}"}})
    assert server.expanded({"key": "word"}.get).env == {"KEY": "word"}
    message = r"^\$\{input:key\} has no value; .* inputs of VS Code\. Set key in the environment"
    with pytest.raises(DeclarationFault, match=message):
        server.expanded({}.get)
