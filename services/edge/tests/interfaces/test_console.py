"""The console: who sees what, what is refused, and its event stream."""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import aclosing
from functools import partial
from typing import Any

import httpx
import pytest
from msgspec import Struct

from searchbus_bus import Call, Toolset, Worker, endpoint, prompt, resource_template, tool
from searchbus_contracts import (
    Fault,
    ResourceBody,
    ResourceReadReply,
    ResourceReadRequest,
    ToolAnnotations,
)
from searchbus_contracts.attach import ManageReply, ManageRequest
from searchbus_contracts.retrieval import (
    Document,
    GetRequest,
    ListReply,
    ListRequest,
    SearchReply,
    SearchRequest,
)
from searchbus_edge.app import build_app
from searchbus_edge.auth.static_keys import KeyFile
from searchbus_edge.interfaces.console.access import console_token
from searchbus_edge.interfaces.console.app import POLICY
from searchbus_edge.interfaces.console.documents import _ingest
from searchbus_edge.interfaces.console.overview import OPEN_TO_ALL
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer
from searchbus_testing import known, until

KEY = "k" * 40
API = "/console/api"
OPERATOR = "searchbus-operator"
HIDDEN = ("hidden_tool", "hiddenset", "hidden_prompt", "hidden:", "HIDDEN-ROLE")
READ_ONLY = ToolAnnotations(read_only_hint=True)


class Nothing(Struct):
    """No arguments."""


class Open(Toolset, name="openset"):
    """What everybody may use."""

    @tool(title="Greet", annotations=READ_ONLY)
    async def greet(self, call: Call, arguments: Nothing) -> str:
        """Greet."""
        await call.progress(1, 2, "half")
        return "hello"


class Hidden(Toolset, name="hiddenset"):
    """What one role may use."""

    @tool(title="Do", required_roles=("HIDDEN-ROLE",), annotations=READ_ONLY)
    async def hidden_tool(self, call: Call, arguments: Nothing) -> str:
        """Do it."""
        return "done"

    @prompt(title="Ask", required_roles=("HIDDEN-ROLE",))
    def hidden_prompt(self, word: str) -> str:
        """Ask it."""
        return word

    @resource_template("hidden://{name}", title="Read", required_roles=("HIDDEN-ROLE",))
    async def hidden_resource(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """Read it."""
        return ResourceReadReply(contents=(ResourceBody(uri=request.uri, text="x"),))


@pytest.fixture
def start(serve, tmp_path):
    """Starts an edge with both toolsets; gives a client."""
    return partial(serve, (Open(), Hidden()), data_dir=tmp_path, state_key=KEY)


@pytest.fixture
async def http(start):
    """A client of an edge without access control."""
    return await start()


TOKEN = {"Searchbus-Console": console_token(KEY.encode())}


async def first_changes(edge: Any, *, everything: bool) -> dict[str, Any]:
    """What a watcher receives first."""
    async with aclosing(edge.console._overview.watch(everything=everything)) as changes:
        return await anext(changes)


async def test_page_has_its_policy_and_no_data(http):
    """A browser gets it before it can send a credential."""
    page = await http.get("/console")
    assert page.status_code == 200
    assert page.headers["content-security-policy"].encode() == POLICY
    assert "unsafe" not in page.headers["content-security-policy"]
    assert (await http.get("/console/app.js")).headers["content-type"].startswith("text/javascript")
    for name in ("nothing.js", "..%2fapp.py", "__init__.py", "%2e%2e"):
        assert (await http.get(f"/console/{name}")).status_code == 404, name


async def test_a_judgement_overwrites_no_line_that_it_cannot_read(http, tmp_path):
    """Somebody may have written it."""
    body = {"query": "q", "part": "tools", "id": "greet", "relevant": True}
    folder = tmp_path / "judgements" / "tools"
    folder.mkdir(parents=True)
    (folder / "queries.jsonl").write_text('{"text": 5}\n')
    refused = await http.post(f"{API}/judge", json=body, headers=TOKEN)
    assert "queries.jsonl:1: " in refused.text
    assert (folder / "queries.jsonl").read_text() == '{"text": 5}\n'


async def test_setting_takes_it_away(start):
    """No address of it is left."""
    http = await start(http_interfaces=("api",))
    for path in ("/console", "/console/app.js", f"{API}/me"):
        assert (await http.get(path)).status_code == 404


@pytest.mark.parametrize("name", ["searchbus_cli.py", "typer.py", "json.py"])
async def test_a_dropped_file_is_read_and_never_run(tmp_path, name):
    """Its name may be that of a module which the command that reads it imports."""
    body = f"open({str(tmp_path / 'ran')!r}, 'w')\n".encode()
    with pytest.raises(Fault, match="No stack is running"):
        await _ingest(body, name, "notes", tmp_path)
    assert (tmp_path / "dropped" / "notes" / name).read_bytes() == body
    assert not (tmp_path / "ran").exists()


async def test_page_of_another_site_gets_nothing(http):
    """By another name of this host, by its Origin, or by a form without JSON."""
    assert (await http.get("/console", headers={"Host": "evil.example"})).status_code == 421
    evil = {"Origin": "https://evil.example"}
    body = {"digits": "0" * 32}
    sent = await http.post(f"{API}/held", json=body, headers={**TOKEN, **evil})
    assert sent.status_code == 403
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert (await http.get(f"{API}/me", headers=cross)).status_code == 403
    form = {**TOKEN, "Content-Type": "text/plain"}
    refused = await http.post(f"{API}/held", content=json.dumps(body), headers=form)
    assert refused.status_code == 415


@pytest.mark.parametrize(
    ("path", "body"),
    [("held", {"digits": "0" * 32}), ("keys", {"name": "x"}), ("keys/revoke", {"id": "x"})],
)
async def test_change_needs_the_token_where_nobody_signs_in(http, path, body):
    """An attached server reaches the edge as well, and must not approve itself."""
    for headers in ({}, {"Searchbus-Console": "wrong"}, {"Searchbus-Console": "\u00e9"}):
        raw = [(name, value.encode()) for name, value in headers.items()]
        answer = await http.post(f"{API}/{path}", json=body, headers=raw)
        assert answer.status_code == 403, answer.text
        assert "searchbus console" in answer.json()["detail"]
    assert (await http.get(f"{API}/me")).json()["manages"] is False
    assert (await http.get(f"{API}/me", headers=TOKEN)).json()["manages"] is True
    assert (await http.post(f"{API}/{path}", json=body, headers=TOKEN)).status_code == 404


_BY_KIND = [{"kind": kind} for kind in ("tool", "prompt", "resource")]
ASKED: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("GET", "/console"): [{}],
    ("GET", "/console/{name}"): [{}],
    ("GET", "me"): [{}],
    ("GET", "events"): [],  # below: it does not end
    ("GET", "catalogue"): [*_BY_KIND, *({**one, "text": "hidden"} for one in _BY_KIND)],
    ("GET", "entry"): [
        {"name": "hidden_tool"},
        {"name": "hidden_prompt", "kind": "prompt"},
        {"name": "hidden://{name}", "kind": "resource"},
    ],
    ("POST", "call"): [{"name": "greet"}, {"name": "hidden_tool"}],
    ("POST", "prompt"): [{"name": "hidden_prompt", "arguments": {"word": "x"}}],
    ("POST", "resource"): [{"uri": "hidden://x"}],
    ("POST", "search"): [{"query": "hidden tool"}],
    ("POST", "judge"): [{"query": "q", "part": "tools", "id": "hidden_tool", "relevant": True}],
    ("GET", "traces"): [{}],
    ("GET", "trace"): [{"id": "ab" * 16}],
    ("GET", "attached"): [{}, {"server": "hiddenset"}],
    ("POST", "attached"): [{"action": "log", "servers": ["hiddenset"]}],
    ("GET", "documents"): [{}, {"collection": "hiddenset"}],
    ("GET", "document"): [{"collection": "hiddenset", "id": "x"}],
    ("GET", "passages"): [{"collection": "hiddenset", "id": "x"}],
    ("POST", "documents/delete"): [{"collection": "hiddenset"}],
    ("POST", "documents/file"): [{"collection": "hiddenset", "name": "x"}],
    ("GET", "connect"): [{}, {"toolset": "hiddenset"}],
    ("GET", "keys"): [{}],
    ("POST", "keys"): [{"name": "x", "roles": ["HIDDEN-ROLE"]}],
    ("POST", "keys/revoke"): [{"id": "x"}],
    ("POST", "seen"): [{"roles": ["HIDDEN-ROLE"]}],
    ("GET", "held"): [{"digits": "0" * 32}],
    ("POST", "held"): [{"digits": "0" * 32}],
}
"""Route → what a caller asks who has no role; a route that is not here fails the test."""


async def test_hidden_names_are_nowhere(start, tmp_path):
    """No route shows a name of what the caller may not use, but for one that the caller sent."""
    http = await start(auth="static")
    key, _ = KeyFile(tmp_path / "keys.json").add("nobody", ())
    sent = {"Authorization": f"Bearer {key}", **TOKEN}
    routes = {
        (method, route.path.removeprefix(f"{API}/"))
        for route in http.edge.console.app.routes
        for method in route.methods - {"HEAD"}
    }
    assert routes == ASKED.keys()
    for (method, path), asked in ASKED.items():
        address = path if path.startswith("/") else f"{API}/{path}"
        for values in asked:
            given = {"params": values} if method == "GET" else {"json": values}
            if path == "documents/file":
                given = {"params": values, "content": b"x"}
            answer = await http.request(
                method, address.replace("{name}", "app.js"), headers=sent, **given
            )
            known = {text for text in HIDDEN if text in json.dumps(values)}
            if values == {"name": "hidden_tool"} and path == "call":
                known.add("HIDDEN-ROLE")  # as MCP answers: a client signs in again with that role
            assert answer.status_code < 500 or path in _UNAVAILABLE, (path, answer.text)
            for text in set(HIDDEN) - known:
                assert text not in answer.text, (path, values, answer.text[:300])
    changes = await first_changes(http.edge, everything=False)
    assert changes.keys() == {OPEN_TO_ALL}


async def test_all_but_the_stream_answers_head(start):
    """A stream has no end: whoever asked for its head would wait on the connection for ever."""
    http = await start()
    routes = [route for route in http.edge.console.app.routes if "GET" in route.methods]
    assert [r.path for r in routes if "HEAD" not in r.methods] == [f"{API}/events"]
    assert (await http.head("/console")).status_code == 200
    refused = await http.head(f"{API}/events")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


_UNAVAILABLE = ("documents", "document", "passages")
"""Nothing serves them here."""


async def test_what_is_about_others_needs_the_role(start, tmp_path):
    """Whoever has it sees and changes."""
    http = await start(auth="static")
    file = KeyFile(tmp_path / "keys.json")
    plain, _ = file.add("plain", ("HIDDEN-ROLE",))
    operator, _ = file.add("operator", (OPERATOR,))
    assert (await http.get(f"{API}/me")).status_code == 401
    for key, status in ((plain, 403), (operator, 200)):
        sent = {"Authorization": f"Bearer {key}"}
        assert (await http.get(f"{API}/keys", headers=sent)).status_code == status
        seen = await http.post(f"{API}/seen", json={"roles": ["HIDDEN-ROLE"]}, headers=sent)
        assert seen.status_code == status
    names = [found["name"] for found in seen.json()["tools"]]
    assert "hidden_tool" in names


async def test_key_gives_no_role_that_its_maker_lacks(start, tmp_path):
    """Not even every role at once."""
    http = await start(auth="static")
    operator, _ = KeyFile(tmp_path / "keys.json").add("operator", (OPERATOR,))
    sent = {"Authorization": f"Bearer {operator}"}
    for roles in (["HIDDEN-ROLE"], ["*"], [OPERATOR, "HIDDEN-ROLE"]):
        body = {"name": "new", "roles": roles}
        assert (await http.post(f"{API}/keys", json=body, headers=sent)).status_code == 403
    made = await http.post(f"{API}/keys", json={"name": "n", "roles": [OPERATOR]}, headers=sent)
    assert made.json()["key"].startswith("sbk_")
    assert made.headers["cache-control"] == "no-store"
    listed = await http.get(f"{API}/keys", headers=sent)
    assert made.json()["key"] not in listed.text
    KeyFile(tmp_path / "keys.json").add("bound", (), endpoints=("desk",))
    shown = (await http.get(f"{API}/keys", headers=sent)).json()["keys"]
    assert [key["endpoints"] for key in shown] == [[], [], ["desk"]]


async def test_who_makes_and_revokes_a_key_is_in_the_audit_log(start, tmp_path, caplog):
    """Its calls are those of a caller of another name."""
    caplog.set_level("INFO", logger="searchbus.audit")
    http = await start(auth="static")
    operator, own = KeyFile(tmp_path / "keys.json").add("operator", (OPERATOR,))
    sent = {"Authorization": f"Bearer {operator}"}
    made = await http.post(f"{API}/keys", json={"name": "n", "roles": [OPERATOR]}, headers=sent)
    new = made.json()["id"]
    await http.post(f"{API}/keys/revoke", json={"id": new}, headers=sent)
    assert [record.getMessage() for record in caplog.records if "key:" in record.getMessage()] == [
        f"key:{own.id} made key:{new} with the roles: {OPERATOR}", f"key:{own.id} revoked key:{new}"
    ]  # fmt: skip
    assert made.json()["key"] not in caplog.text


class Attach:
    """Stands for the service that attaches servers."""

    @endpoint
    async def manage(self, call: Call, request: ManageRequest) -> ManageReply:
        return ManageReply(done=("a_tool",) if request.digits else ())


async def test_who_changes_something_is_in_the_audit_log(http, caplog):
    """Whoever only looks, or changes nothing, is not."""
    caplog.set_level("INFO", logger="searchbus.audit")
    worker = Worker("attach")
    worker.add(Attach())
    await http.edge.bus.serve(worker)
    await known(http.edge.directory, "attach")
    for action, digits in (("log", ["1"]), ("approve", []), ("approve", ["1"])):
        body = {"action": action, "servers": ["plain"], "digits": digits}
        answer = await http.post(f"{API}/attached", json=body, headers=TOKEN)
        assert answer.status_code == 200
    told = [one.getMessage() for one in caplog.records if one.name == "searchbus.audit"]
    assert told == ["anonymous: attached servers: approve: plain, a_tool"]


class Library:
    """Stands for the service that has the documents."""

    @endpoint
    async def get(self, call: Call, request: GetRequest) -> Document:
        return Document(
            collection="news", document_id=request.document_id, title="t", text="x", chunk_count=1
        )

    @endpoint
    async def list(self, call: Call, request: ListRequest) -> ListReply:
        return ListReply()

    @endpoint
    async def search(self, call: Call, request: SearchRequest) -> SearchReply:
        return SearchReply(hits=())


@pytest.mark.parametrize(
    ("what", "method", "path", "given"),
    [
        ("get", "GET", "/documents/news/x", {}),
        ("get", "GET", f"{API}/document", {"params": {"collection": "news", "id": "x"}}),
        ("list", "GET", f"{API}/documents", {}),
        ("list", "GET", f"{API}/passages", {"params": {"collection": "news", "id": "x"}}),
        ("search", "POST", f"{API}/search", {"json": {"query": "x", "parts": ["documents"]}}),
    ],
)
async def test_who_reads_documents_makes_a_call(start, caplog, what, method, path, given):
    """By no page a caller gets past its limits, and out of the audit log."""
    caplog.set_level("INFO", logger="searchbus.audit")
    http = await start(daily_budgets={"caller_calls": 1})
    worker = Worker("retrieval")
    worker.add(Library())
    await http.edge.bus.serve(worker)
    first, second = [await http.request(method, path, **given) for _ in range(2)]
    assert first.status_code == 200 and "rate_limited" not in first.text
    assert "The budget caller_calls of today is used up" in second.text
    http.edge.audit.flush()
    for outcome in ("ok", "rate_limited"):
        assert f"anonymous called documents/{what}: {outcome}" in caplog.text


async def test_stream_ends_with_the_key_of_its_reader(start, tmp_path):
    """A key is revoked because it is in wrong hands: what comes later is not for them."""
    edge = (await start(auth="static")).edge
    file = KeyFile(tmp_path / "keys.json")
    operator, record = file.add("operator", (OPERATOR,))
    sent = {"Authorization": f"Bearer {operator}"}
    async with (
        HttpServer.serving(build_app(edge, Health())) as server,
        httpx.AsyncClient(base_url=server.url, headers=sent) as http,
        http.stream("GET", f"{API}/events") as stream,
    ):
        lines = stream.aiter_lines()
        while not (await anext(lines)).startswith("data: "):
            pass
        file.revoke(record.id)
        while (await http.get(f"{API}/me")).status_code != 401:
            await asyncio.sleep(0.05)
        worker = Worker("late")
        worker.add(Open())
        await edge.bus.serve(worker)
        assert "instance/late" not in "".join([line async for line in lines])


async def test_call_sends_its_events_result_and_trace(http):
    """As an event stream; a failure is a problem in it."""
    answer = await http.post(f"{API}/call", json={"name": "greet"})
    kinds = [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]
    assert kinds == ["progress", "result"]
    result = json.loads(answer.text.rpartition("data: ")[2])
    assert result["content"] == [{"type": "text", "text": "hello"}]
    assert len(result["trace_id"]) == 32
    refused = await http.post(f"{API}/call", json={"name": "unknown"})
    assert "event: problem" in refused.text
    assert '"code":"not_found"' in refused.text


async def test_hidden_tool_is_not_called(start, tmp_path):
    """The console bypasses no role."""
    http = await start(auth="static")
    key, _ = KeyFile(tmp_path / "keys.json").add("operator", (OPERATOR,))
    sent = {"Authorization": f"Bearer {key}"}
    answer = await http.post(f"{API}/call", json={"name": "hidden_tool"}, headers=sent)
    assert "event: problem" in answer.text
    assert '"code":"forbidden"' in answer.text


async def test_list_of_ten_thousand_is_read_by_pages(http):
    """Filtered where the tools are, not in the browser."""
    first = (await http.get(f"{API}/catalogue", params={"text": "GREET"})).json()
    assert [entry["name"] for entry in first["entries"]] == ["greet"]
    beyond = (await http.get(f"{API}/catalogue", params={"offset": 9999})).json()
    assert beyond["entries"] == []
    assert beyond["total"] > 1
    assert (await http.get(f"{API}/catalogue", params={"offset": -1})).status_code != 500


async def test_stream_sends_only_what_changed(http):
    """First everything; then nothing, until something changes."""
    edge = http.edge  # type: ignore[attr-defined]
    overview = edge.console._overview
    gc.collect()  # what earlier tests left in this process is shown as well
    async with aclosing(overview.watch(everything=True)) as changes:
        first = await anext(changes)
        assert any(key.startswith("instance/things/") for key in first)
        following = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(2.5)
        assert not following.done()
        worker = Worker("late")
        worker.add(Open())
        await edge.bus.serve(worker)
        changed = await following
        assert [key[:14] for key in changed if key != OPEN_TO_ALL] == ["instance/late/"]
    await until(lambda: overview._looking is None)


async def test_a_page_that_is_loaded_again_goes_on_seeing_changes(http):
    """The stream of the new page begins while that of the old one ends."""
    edge = http.edge
    overview = edge.console._overview
    old, new = overview.watch(everything=True), overview.watch(everything=True)
    await anext(old)
    await asyncio.gather(old.aclose(), anext(new))
    async with aclosing(new):
        worker = Worker("late")
        worker.add(Open())
        await edge.bus.serve(worker)
        following = asyncio.ensure_future(anext(new))
        await until(following.done)
    assert any(key.startswith("instance/late/") for key in following.result())


async def test_streams_end_with_the_edge(http):
    """An open page does not hold its shutdown."""
    edge = http.edge  # type: ignore[attr-defined]

    async def read() -> str:
        return (await http.get(f"{API}/events")).text

    reading = asyncio.ensure_future(read())
    await until(lambda: edge.console._overview._watchers)
    await edge.end_streams()
    assert "event: changes" in await asyncio.wait_for(reading, 30)


async def test_snippets_are_for_the_endpoint(http):
    """Of the toolset that is asked for; none for a toolset that is not there."""
    found = (await http.get(f"{API}/connect", params={"toolset": "openset"})).json()
    assert found["url"].endswith("/mcp/openset")
    texts = {snippet["program"]: snippet["text"] for snippet in found["snippets"]}
    assert found["url"] in texts["cursor"]
    assert json.loads(texts["vscode"])["servers"]["searchbus"]["type"] == "http"
    assert "openset" in texts["claude-desktop"]
    answer = await http.get(f"{API}/connect", params={"toolset": "nothing"})
    assert answer.status_code == 404


async def test_wrong_parameter_is_named_to_known_callers_only(start, http):
    """A stranger is asked to sign in; the value comes back to nobody."""
    answer = await http.get(f"{API}/catalogue", params={"kind": "<b>evil</b>"})
    assert answer.status_code == 400
    assert "kind" in answer.json()["detail"]
    assert "evil" not in answer.text
    signed_in = await start(auth="static")
    assert (await signed_in.get(f"{API}/catalogue", params={"kind": "x"})).status_code == 401


async def test_hostile_bodies_are_refused(http):
    """Too deep, too long a number, no JSON, another type: one problem each, and no broken answer."""
    json_type = {**TOKEN, "Content-Type": "application/json"}
    for body in (
        '{"name":"greet","arguments":' + "[" * 90_000 + "]" * 90_000 + "}",
        '{"name":"greet","arguments":{"a":' + "1" * 5000 + "}}",
        "{", "[]", '{"name": 1}', "\ud800".encode("utf-8", "surrogatepass"),
    ):  # fmt: skip
        answer = await http.post(f"{API}/call", content=body, headers=json_type)
        assert answer.status_code == 400, body[:40]
