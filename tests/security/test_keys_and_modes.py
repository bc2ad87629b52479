"""Static keys, what starts without access control, and what the audit log holds."""

from __future__ import annotations

import json
import logging

import pytest

from searchbus_edge.auth.static_keys import KeyFile
from searchbus_edge.settings import EdgeSettings
from searchbus_testing import run_command

STATIC = [{"auth": "static", "issuer": None}]


@pytest.mark.parametrize("secured", STATIC, indirect=True)
async def test_keys_are_made_used_and_revoked(secured, tmp_path):
    """Roles hold; a revoked key is refused; the file has no key in it."""
    file = KeyFile(tmp_path / "keys.json")
    key, record = file.add("laptop", ("ROLE_MCP-WEB-SEARCH",))
    weak, _ = file.add("guest", ())
    every, _ = file.add("me", ("*",))
    assert key not in file.path.read_text()
    assert file.path.stat().st_mode & 0o077 == 0
    secured.clock.added_s += 1.1
    answer = await secured.result("tools/call", key, name="role_tool", arguments={})
    assert f"role_tool for key:{record.id}" in answer["result"]["content"][0]["text"]
    assert (
        await secured.post("tools/call", weak, name="role_tool", arguments={})
    ).status_code == 403
    assert (
        await secured.post("tools/call", every, name="two_tool", arguments={})
    ).status_code == 200
    for bad in (key[:-1], key + "x", "sbk_" + record.id + "_" + "A" * 43, "x", f"sbk_{record.id}_"):
        assert (await secured.post("tools/list", bad)).status_code == 401
    assert file.revoke(record.id)
    assert not file.revoke(record.id)
    secured.clock.added_s += 1.1
    assert (await secured.post("tools/list", key)).status_code == 401
    expired, _ = file.add("old", (), expires_s=1)
    secured.clock.added_s += 1.1
    assert (await secured.post("tools/list", expired)).status_code == 401


JOINED = {"desk": ["office"], "other": ["office"]}
ELSEWHERE = [
    *(("POST", f"/mcp{name}") for name in ("", "/other", "/office", "/desks", "/bulk", "/lazy")),
    *(("GET", path) for path in (
        "/", "/openapi.json", "/docs", "/api/v1/tools", "/documents/a/b", "/read?url=http://x",
        "/searxng?q=x", "/console/api/overview",
    )),
    ("POST", "/api/v1/desk/open_tool"), ("POST", "/api/v1/tools/open_tool"),
    ("POST", "/tavily/search"),
]  # fmt: skip


@pytest.mark.parametrize("secured", [STATIC[0] | {"joined_endpoints": JOINED}], indirect=True)
async def test_key_of_an_endpoint_is_valid_nowhere_else(secured, tmp_path):
    """Neither at other endpoints nor by plain HTTP, whatever its roles; a second key of its name
    is bound as the first.
    """
    file = KeyFile(tmp_path / "keys.json")
    bound, _ = file.add("desk", ("*",), endpoints=("desk",))
    second, _ = file.rotate("desk")
    free, _ = file.add("free", ("*",))
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

    async def answer(key, method, path):
        headers = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json, text/event-stream",
        }
        return await secured.http.request(method, path, json=body, headers=headers)

    for key in (bound, second):
        for method, path in ELSEWHERE:
            refused = await answer(key, method, path)
            assert (refused.status_code, path) == (401, path)
            assert "open_tool" not in refused.text
        for path in ("/mcp/desk", "/mcp/desk/"):
            assert "open_tool" in (await answer(key, "POST", path)).text
    challenge = (await answer(bound, "POST", "/mcp")).headers["www-authenticate"]
    assert "The key is valid at /mcp/desk only." in challenge
    found = {
        path: (await answer(free, *place)).status_code for place in ELSEWHERE for path in place
    }
    assert 401 not in found.values()


@pytest.mark.parametrize("secured", [STATIC[0] | {"joined_endpoints": JOINED}], indirect=True)
async def test_strangers_learn_of_no_joined_endpoint(secured):
    """It answers as one that does not exist."""

    async def answer(name):
        found = await secured.http.post(f"/mcp/{name}")
        return found.status_code, found.text.replace(name, "NAME")

    assert await answer("desk") == await answer("absent")


def test_command_line_makes_lists_and_revokes(tmp_path):
    """The key is shown once."""

    def run(*arguments):
        return run_command("keys", *arguments, "--data", tmp_path)

    made = run("add", "laptop", "--role", "ROLE_MCP-WEB-SEARCH", "--days", "90")
    key = made.stdout.strip()
    assert key.startswith("sbk_")
    listed = run("list").stdout
    assert "laptop  MCP-WEB-SEARCH" in listed
    assert key not in listed
    bound = run("add", "desk", "--endpoint", "/mcp/desk", "--endpoint", "web")
    assert "roles: none /mcp/desk /mcp/web" in bound.stderr
    assert " /mcp/desk /mcp/web" in run("list").stdout
    assert run("revoke", bound.stdout.split("_")[1]).returncode == 0
    for wrong, why in (("lazy", "call every other tool"), ("a b", "give a name")):
        refused = run("add", "desk", "--endpoint", wrong)
        assert (refused.returncode, why in refused.stderr) == (1, True)
    assert run("revoke", key.split("_")[1]).returncode == 0
    assert run("revoke", "nope").returncode == 1
    assert run("list").stdout == ""


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"host": "0.0.0.0"}, "SEARCHBUS_ISSUER"),
        ({"auth": "jwt"}, "SEARCHBUS_ISSUER"),
        ({"host": "0.0.0.0", "issuer": "https://idp.example"}, "SEARCHBUS_PUBLIC_URL"),
        ({"host": "0.0.0.0", "auth": "static"}, "SEARCHBUS_KEYS_FILE"),
    ],
)
def test_nothing_is_open_by_accident(options, named):
    """Off loopback the default is jwt, and what it needs is named."""
    with pytest.raises(ValueError, match=named):
        EdgeSettings(**options)


def test_modes_by_default():
    """No credential is needed on loopback; a token is needed elsewhere."""
    assert EdgeSettings().mode == "none"
    given = {"issuer": "https://idp.example", "public_url": "https://s.example"}
    assert EdgeSettings(host="0.0.0.0", **given).mode == "jwt"
    assert EdgeSettings(host="0.0.0.0", auth="none").mode == "none"


CANARY = "canary-4711-secret"


async def test_audit_log_has_who_called_what_and_no_contents(secured, caplog):
    """Subject, tool, outcome, time, size, also of what is forbidden; no argument, no token."""
    caplog.set_level(logging.DEBUG)
    token = secured.provider.token("A", "B")
    await secured.result("tools/call", token, name="two_tool", arguments={"text": CANARY})
    await secured.result("tools/call", token, name="unknown", arguments={"text": CANARY})
    lacking = secured.provider.token("A")
    await secured.post("tools/call", lacking, name="two_tool", arguments={"text": CANARY})
    secured.edge.audit.flush()
    records = [r for r in caplog.records if r.name == "searchbus.audit"]
    lines = [json.loads(line) for r in records for line in r.lines]
    assert [(line["subject"], line["tool"], line["outcome"]) for line in lines] == [
        ("alice", "two_tool", "ok"), ("alice", "unknown", "json-rpc -32602"),
        ("alice", "two_tool", "forbidden"),
    ]  # fmt: skip
    assert lines[0]["bytes"] > 0
    assert lines[0]["duration_ms"] > 0
    everything = "\n".join(f"{r.getMessage()} {r.__dict__}" for r in caplog.records
                           if r.name.startswith("searchbus"))  # fmt: skip
    assert CANARY not in everything
    assert token not in everything


@pytest.mark.parametrize("secured", [{"audit_arguments": True}], indirect=True)
async def test_arguments_are_logged_if_the_setting_says_so(secured, caplog):
    """Only if the operator sets it."""
    caplog.set_level(logging.INFO)
    await secured.result(
        "tools/call", secured.provider.token(), name="open_tool", arguments={"a": 1}
    )
    secured.edge.audit.flush()
    (record,) = [r for r in caplog.records if r.name == "searchbus.audit"]
    assert [json.loads(line)["arguments"] for line in record.lines] == [{"a": 1}]
