"""The SDK's own client against the edge, on old and new revisions."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from types import SimpleNamespace

import httpx
import mcp_types as types
import pytest
from mcp import Client
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from searchbus_bus import Call, MemoryBroker, Worker, end_task
from searchbus_contracts import InputRequired, ToolCall, ToolDescriptor, ToolReply
from searchbus_contracts.attach import ATTACHED_BY
from searchbus_edge.app import build_app
from searchbus_edge.auth.static_keys import KeyFile
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.http import answer as http_answer
from searchbus_edge.mcp import servers
from searchbus_edge.mcp.client import client_capabilities, dump_responses, request_input
from searchbus_edge.mcp.servers import ListChanges
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer
from searchbus_testing import known, until

from ..conftest import Dictionary, dictionary_worker

MODES = ["legacy", "auto"]
"""The handshake of revisions to 2025-11-25, and whatever is newest (2026-07-28)."""


def with_client(*modes):
    """Run a test once a mode, with a connected client (its scopes must not leave the test's task)."""

    def decorate(test):
        names = [n for n in inspect.signature(test).parameters if n not in ("client", "running")]

        async def run(running, mode, **options):
            async with Client(f"{running.url}/mcp/dictionary", mode=mode) as client:
                if "running" in inspect.signature(test).parameters:
                    options["running"] = running
                await test(client=client, **options)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        run.__signature__ = inspect.Signature(
            [inspect.Parameter(name, kind) for name in ("running", "mode", *names)]
        )
        run.__name__, run.__doc__ = test.__name__, test.__doc__
        run.pytestmark = getattr(test, "pytestmark", [])
        return pytest.mark.parametrize("mode", modes or MODES)(run)

    return decorate


async def fault_of(call) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await call
    return caught.value


@with_client()
async def test_tools_are_listed_in_order_with_the_workers_schema(client, running):
    """What the worker published is what the client sees; hidden tools are not there."""
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [
        "brief", "crash", "fail", "list_words", "look_up", "say", "slow", "steps"
    ]  # fmt: skip
    look_up = next(tool for tool in tools if tool.name == "look_up")
    assert look_up.input_schema["properties"]["count"]["maximum"] == 50
    success, failure = look_up.output_schema["anyOf"]
    assert success["properties"].keys() == {"word", "sense"}
    assert failure["required"] == ["error"]


@with_client()
async def test_json_reply_has_equal_text_and_structure(client):
    """The text is the structured content as JSON."""
    result = await client.call_tool("look_up", {"word": "bus"})
    assert result.structured_content == {"word": "bus", "sense": "é ✓"}
    assert json.loads(result.content[0].text) == result.structured_content
    assert "é ✓" in result.content[0].text
    assert not result.is_error


@with_client()
async def test_results_reply_shows_the_bare_array_as_text(client):
    """A spec that shows an array gets an array as text, an object beside it."""
    result = await client.call_tool("list_words", {"word": "bus", "count": 2})
    assert json.loads(result.content[0].text) == result.structured_content["results"]
    assert len(result.structured_content["results"]) == 2


@with_client()
async def test_failure_is_an_error_result_with_its_code(client):
    """The text begins with the code; the structure has everything and fits the output schema."""
    result = await client.call_tool("fail", {})
    assert result.is_error
    assert result.content[0].text == "rate_limited: Too many. Wait."
    assert result.structured_content == {
        "error": {
            "code": "rate_limited",
            "message": "Too many. Wait.",
            "retryable": True,
            "retry_after_ms": 1500,
        }
    }


@with_client()
async def test_deadline_of_a_tool_is_kept(client, running):
    """A tool beyond its own time limit fails typed, and its worker stops."""
    result = await client.call_tool("brief", {})
    assert result.content[0].text.startswith("deadline_exceeded: ")
    assert running.dictionary.cancelled == 1


@with_client()
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "word: is required"),
        ({"word": 5}, "word: 5 is not of type"),
        ({"word": "a", "count": 51}, "count: 51 is greater than the maximum of 50"),
        ({"word": "a", "extra": 1}, "extra: is unknown; leave it out"),
        ({"word": "x" * 5000}, "longer than 100"),
    ],
)
async def test_arguments_outside_the_schema_are_an_error_result(client, arguments, named):
    """It names the field and the range and does not echo a huge value; the model goes on."""
    result = await client.call_tool("look_up", arguments)
    assert result.is_error
    (text,) = [block.text for block in result.content]
    assert text.startswith("invalid_argument: ")
    assert named in text
    assert len(text) < 600
    error = result.structured_content["error"]
    assert (error["code"], error["retryable"]) == ("invalid_argument", False)


@with_client()
@pytest.mark.parametrize("name", ["nope", "secret"])
async def test_unknown_and_hidden_tools_look_the_same(client, name):
    """The error does not show whether a hidden tool exists."""
    error = await fault_of(client.call_tool(name, {}))
    assert (error.code, error.message) == (
        -32602,
        f"Unknown tool: {name}. tools/list shows those there are.",
    )


@with_client()
async def test_unforeseen_exception_of_a_worker_leaks_nothing(client):
    """-32603 with fixed text and the trace id."""
    error = await fault_of(client.call_tool("crash", {}))
    assert error.code == -32603
    assert "canary" not in error.message


@with_client()
async def test_progress_reaches_the_client_in_order(client):
    """Every step, before the result."""
    seen = []

    async def on_progress(progress, total, message):
        seen.append((progress, total, message))

    result = await client.call_tool("steps", {}, progress_callback=on_progress)
    assert result.content[0].text == "done"
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@with_client("auto")
async def test_cancelled_call_stops_the_worker(client, running):
    """Cancelling at the client closes its stream, and that reaches the handler.

    The older client sends a notification instead, which no stateless server can place; it is
    cancelled when it disconnects (http/test_app.py).
    """
    task = asyncio.create_task(client.call_tool("slow", {}))
    await until(lambda: running.dictionary.started)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: running.dictionary.cancelled)


@with_client()
async def test_prompts_are_listed_filled_and_completed(client):
    """Without a request to the worker; tools that ask for it are named, but no hidden one."""
    prompts = (await client.list_prompts()).prompts
    assert [prompt.name for prompt in prompts] == ["define"]
    filled = await client.get_prompt("define", {"word": "{word} bus"})
    assert filled.messages[0].content.text == (
        "Define {word} bus.\n\nTools that you may call for this: look_up."
    )
    error = await fault_of(client.get_prompt("define", {}))
    assert "needs the argument word" in error.message
    assert (await fault_of(client.get_prompt("nope", {}))).code == -32602


@with_client()
async def test_resources_are_listed_and_read(client):
    """Fixed ones and templates; unknown ones have the revision's own error."""
    assert [r.uri for r in (await client.list_resources()).resources] == ["dict://all"]
    templates = (await client.list_resource_templates()).resource_templates
    assert [t.uri_template for t in templates] == ["dict://word/{word}"]
    read = await client.read_resource("dict://word/bus")
    assert read.contents[0].text == "about dict://word/bus"
    for uri in ("dict://nope", "dict://word/none", "dict://word/a/b"):
        error = await fault_of(client.read_resource(uri))
        assert error.code in (-32602, -32002)
        assert "not found" in error.message


async def test_all_tools_endpoint_gives_colliding_names_by_order(running):
    """A name belongs to the first toolset of the order; a later holder is prefixed."""
    async with Client(f"{running.url}/mcp") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names.index("look_up") < names.index("atlas_look_up")
        assert "odd" not in names  # its schema is broken; it harms no other
        result = await client.call_tool("atlas_look_up", {})
        assert result.content[0].text == "from the atlas"


@pytest.mark.parametrize("running", [{"page_size": 3}], indirect=True)
async def test_pages_hold_every_tool_once(running):
    """Walking the cursors gives the whole list; a made-up cursor is refused."""
    async with Client(f"{running.url}/mcp") as client:
        names, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            assert len(page.tools) <= 3
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(names) == len(set(names)) == 9
        for bad in ("x", "OTk5LmFiYw", "é", ""):
            assert (await fault_of(client.list_tools(cursor=bad))).code == -32602


async def test_new_workers_tools_appear_and_vanished_ones_are_unavailable(running):
    """No restart of the edge; a tool whose worker went answers unavailable."""
    async with Client(f"{running.url}/mcp/dictionary") as client:
        assert (await client.call_tool("say", {})).content[0].text == "hello"
        await running.buses[1].close()
        result = await client.call_tool("say", {})
        assert result.is_error
        assert result.content[0].text.startswith("unavailable: ")
        assert len((await client.list_tools()).tools) == 8


async def test_change_is_published_for_each_list():
    """In a task: the directory does not wait for clients."""
    changes = ListChanges()
    seen = []
    changes._published.subscribe(seen.append)
    changes.notify()
    assert seen == []
    while changes._tasks:
        await asyncio.sleep(0)
    kinds = [type(event) for event in seen]
    assert kinds == [ToolsListChanged, PromptsListChanged, ResourcesListChanged]


async def test_streams_of_one_caller_leave_those_of_others(monkeypatch):
    """Its own end gives one back."""
    monkeypatch.setattr(servers, "MAX_STREAMS", 2)
    changes = ListChanges()
    begun = asyncio.Semaphore(0)

    async def acknowledge(notification, **options):
        begun.release()

    def listen(caller):
        session = SimpleNamespace(send_notification=acknowledge)
        ctx = SimpleNamespace(request=SimpleNamespace(caller=caller), request_id=1, session=session)
        params = types.SubscriptionsListenRequestParams.model_validate({"notifications": {}})
        return asyncio.create_task(changes.listen(ctx, params))

    open_ = [listen("ann"), listen("ann"), listen("bob")]
    for _ in open_:
        await begun.acquire()
    fault = await fault_of(listen("ann"))
    assert (fault.error.code, fault.error.data["code"]) == (-31503, "overloaded")
    await end_task(open_.pop(0))
    open_.append(listen("ann"))
    await begun.acquire()
    for task in open_:
        await end_task(task)
    assert changes._streams == {}


@with_client()
async def test_updates_of_single_resources_are_not_declared(client):
    """None is ever sent: a client must not believe that what it follows is unchanged."""
    assert client.server_capabilities.resources.subscribe is None


async def test_acknowledgement_leaves_out_what_is_never_sent():
    """It says what the server will send."""
    acknowledged = asyncio.Queue()

    async def send(notification, **options):
        acknowledged.put_nowait(notification.params.notifications)

    session = SimpleNamespace(send_notification=send)
    ctx = SimpleNamespace(request=None, request_id=1, session=session)
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["dict://all"]}
    params = types.SubscriptionsListenRequestParams.model_validate({"notifications": wanted})
    task = asyncio.create_task(ListChanges().listen(ctx, params))
    found = await acknowledged.get()
    assert (found.tools_list_changed, found.resource_subscriptions) == (True, None)
    await end_task(task)


async def test_close_without_listeners_is_harmless():
    """At the end of every edge."""
    changes = ListChanges()
    changes.close()
    changes.close()


async def test_nobody_listens_at_an_edge_that_stops():
    """A client whose stream was ended is back at once: it would hold the shutdown to its limit."""
    changes = ListChanges()
    changes.close()
    ctx = SimpleNamespace(request=SimpleNamespace(caller="ann"), request_id=1)
    fault = await fault_of(changes.listen(ctx, None))
    assert (fault.error.code, fault.error.data["code"]) == (-31503, "unavailable")


async def test_a_stream_ends_with_the_key_of_its_caller(tmp_path, monkeypatch):
    """It is asked for again every few seconds, while nothing else happens on the stream."""
    monkeypatch.setattr(http_answer, "ADMIT_EVERY_S", 0.05)
    file = KeyFile(tmp_path / "keys.json")
    key, record = file.add("listener", ("*",))
    method = "subscriptions/listen"
    sent = {
        "Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method,
    }  # fmt: skip
    params = {
        "notifications": {"toolsListChanged": True},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    settings = EdgeSettings(auth="static", data_dir=tmp_path, keys_file=file.path)
    async with (
        open_edge(MemoryBroker().connect(name="edge"), settings) as edge,
        HttpServer.serving(build_app(edge, Health())) as server,
        httpx.AsyncClient(base_url=server.url, headers=sent) as http,
        http.stream("POST", "/mcp", json=body) as stream,
        asyncio.timeout(60),
    ):
        lines = stream.aiter_lines()
        while not (await anext(lines)).startswith("data: "):
            pass
        file.revoke(record.id)
        async for _ in lines:  # until it ends
            pass
        assert edge.changes._streams == {}


@pytest.mark.parametrize(
    "limits",
    [{"daily_budgets": {"caller_calls": 2}}, {"call_rate_per_s": 0.001, "call_burst": 2}],
)
async def test_reads_of_services_count_as_calls(caplog, limits):
    """They give what tools give: by them no caller gets past its limits, and out of the log."""
    caplog.set_level(logging.INFO, "searchbus.audit")
    broker = MemoryBroker()
    await broker.connect(name="dictionary").serve(dictionary_worker(Dictionary()))
    settings = EdgeSettings(**limits)
    async with (
        open_edge(broker.connect(name="edge"), settings) as edge,
        HttpServer.serving(build_app(edge, Health())) as server,
        Client(f"{server.url}/mcp/dictionary", mode="legacy") as client,
    ):
        for _ in range(2):
            await client.read_resource("dict://all")
        fault = await fault_of(client.read_resource("dict://all"))
    assert fault.error.data["code"] == "rate_limited"
    said = "anonymous called resources/read dict://all: {}".format
    await until(lambda: said("ok") in caplog.text and said("rate_limited") in caplog.text)


async def asked(url: str, method: str, revision: str, worker: object) -> dict:
    """What an edge answers to the question of an attach service."""
    meta = {ATTACHED_BY: worker}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision}
    if revision >= "2026":
        headers["Mcp-Method"] = method
        meta |= {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "searchbus", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
    async with httpx.AsyncClient() as client:
        return (await client.post(f"{url}/mcp", json=body, headers=headers)).json()


QUESTIONS = [("ping", "2025-11-25"), ("server/discover", "2026-07-28")]


@pytest.mark.parametrize(("method", "revision"), QUESTIONS)
async def test_a_worker_of_this_bus_is_refused(running, method, revision):
    """The error says so with the worker's id, so that no other error is taken for it."""
    serving = await running.broker.connect(name="attach").serve(Worker("attach"))
    answer = await asked(running.url, method, revision, serving.instance)
    assert answer["error"]["data"] == {ATTACHED_BY: serving.instance}
    assert "Remove it" in answer["error"]["message"]


@pytest.mark.parametrize(("method", "revision"), QUESTIONS)
@pytest.mark.parametrize("worker", ["of-another-bus", "no token", "*", 7, None])
async def test_others_are_answered(running, method, revision, worker):
    """As if they had not said which worker they are; also what no worker can be."""
    await running.broker.connect(name="attach").serve(Worker("attach"))
    assert "result" in await asked(running.url, method, revision, worker)


ELICITATION = types.ClientCapabilities(elicitation=types.ElicitationCapability())
REQUEST = {"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": {}}}


def test_capabilities_are_named(context):
    """None where the client declared none."""
    assert client_capabilities(context(capabilities=ELICITATION)) == ("elicitation",)
    assert client_capabilities(context()) == ()


def test_able_client_gets_the_request_and_the_state(context):
    """It calls again with both."""
    required = InputRequired(requests={"q": REQUEST}, state="s")
    result = request_input(context(capabilities=ELICITATION), required)
    assert isinstance(result, types.InputRequiredResult)
    dumped = result.model_dump(by_alias=True, exclude_none=True)
    assert dumped["requestState"] == "s"
    assert dumped["inputRequests"]["q"]["method"] == "elicitation/create"


@pytest.mark.parametrize(
    ("revision", "capabilities", "lacks"),
    [
        ("2026-07-28", None, "elicitation"),
        ("2025-11-25", ELICITATION, "revision 2026-07-28"),
    ],
)
def test_other_clients_get_a_typed_failure(context, revision, capabilities, lacks):
    """It names what they lack."""
    required = InputRequired(requests={"q": REQUEST}, state="s")
    result = request_input(context(revision, capabilities), required)
    assert result.is_error
    assert result.content[0].text.startswith("invalid_argument: ")
    assert f"lacks: {lacks}" in result.content[0].text


async def test_state_of_a_tool_comes_back_from_its_caller_only(tmp_path):
    """Who was handed the sealed text of another's call gets nothing of it."""
    states = []

    async def ask(call: Call, request: ToolCall) -> ToolReply:
        states.append(request.state)
        return ToolReply(input_required=InputRequired(state="of ann"))

    broker, worker = MemoryBroker(), Worker("asking")
    descriptor = ToolDescriptor(
        name="ask", toolset="asking", description="Asks.", input_schema={"type": "object"}
    )
    worker.add_tool(descriptor, ask)
    await broker.connect(name="asking").serve(worker)
    file = KeyFile(tmp_path / "keys.json")
    keys = {name: file.add(name, ("*",))[0] for name in ("ann", "bob")}
    settings = EdgeSettings(auth="static", data_dir=tmp_path, keys_file=file.path)
    async with (
        open_edge(broker.connect(name="edge"), settings) as edge,
        HttpServer.serving(build_app(edge, Health())) as server,
        httpx.AsyncClient(base_url=server.url) as http,
    ):
        await known(edge.directory, "asking")

        async def call(caller: str, **given: str) -> dict[str, object]:
            headers = {
                "Authorization": f"Bearer {keys[caller]}", "MCP-Protocol-Version": "2026-07-28",
                "Accept": "application/json, text/event-stream", "Mcp-Method": "tools/call",
                "Mcp-Name": "ask",
            }  # fmt: skip
            meta = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"name": "ask", "arguments": {}, "_meta": meta, **given}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            return (await http.post("/mcp", json=body, headers=headers)).json()

        sealed = (await call("ann"))["result"]["requestState"]
        assert (await call("bob", requestState=sealed))["error"]["code"] == -32602
        assert "result" in await call("ann", requestState=sealed)
    assert states == [None, "of ann"]


def test_responses_are_dumped_as_json():
    """None where the call carries none."""
    plain = types.CallToolRequestParams(name="t")
    assert dump_responses(plain) is None
    answered = types.CallToolRequestParams.model_validate(
        {"name": "t", "inputResponses": {"q": {"action": "accept", "content": {"a": 1}}}}
    )
    assert dump_responses(answered)["q"]["content"] == {"a": 1}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_parameter_that_the_sdk_refuses_is_named(running, revision):
    """Models send arguments as a text of JSON; the value comes back to nobody."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision}
    params = {"name": "say", "arguments": '{"canary": 1}'}
    if revision >= "2026":
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "say"}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx.AsyncClient() as client:
        answer = (await client.post(f"{running.url}/mcp", json=body, headers=headers)).json()
    assert answer["error"]["code"] == -32602
    assert "parameters: arguments. Correct" in answer["error"]["message"]
    assert "canary" not in str(answer)
