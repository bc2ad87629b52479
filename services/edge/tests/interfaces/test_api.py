"""Plain HTTP for every tool: addresses, methods, answers, problems, the page."""

from __future__ import annotations

import asyncio
import json
import re

import httpx
import jsonschema_rs
import pytest
from msgspec import Struct

from searchbus_bus import Call, Toolset, Worker, tool
from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.http.faults import HttpError
from searchbus_edge.interfaces.api import page_file
from searchbus_edge.interfaces.openapi import OpenApi
from searchbus_edge.settings import EdgeSettings
from searchbus_testing import until


class Nothing(Struct):
    pass


class Later(Toolset, name="later"):
    """A toolset that comes while the edge runs."""

    @tool(title="wait")
    async def wait(self, call: Call, arguments: Nothing) -> str:
        """Wait."""
        return ""


@pytest.fixture
async def http(running):
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as http:
        yield http


def events(text):
    """(name, data) of each event of a stream."""
    found = [block.split("\n") for block in text.split("\n\n") if block.startswith("event: ")]
    return [(name[7:], json.loads(data[6:])) for name, data in found]


@pytest.mark.parametrize(
    ("path", "arguments", "expected"),
    [
        ("tools/look_up", {"word": "bus"}, {"word": "bus", "sense": "é ✓"}),
        ("dictionary/look_up", {"word": "bus"}, {"word": "bus", "sense": "é ✓"}),
        ("tools/list_words", {"word": "b", "count": 1}, {"results": [{"word": "b", "sense": "0"}]}),
    ],
)
async def test_structured_result_is_the_answer(http, path, arguments, expected):
    """As it is, without an envelope."""
    response = await http.post(f"/api/v1/{path}", json=arguments)
    assert (response.status_code, response.json()) == (200, expected)
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("accept", "content_type", "body"),
    [
        ("*/*", "text/plain; charset=utf-8", "hello"),
        ("text/plain", "text/plain; charset=utf-8", "hello"),
        ("application/json, text/plain", "text/plain; charset=utf-8", "hello"),
        ("application/json", "application/json", '{"content":[{"type":"text","text":"hello"}]}'),
    ],
)
async def test_tool_without_structured_result_answers_with_its_text(
    http, accept, content_type, body
):
    """In the form that the client accepts."""
    response = await http.post("/api/v1/tools/say", json={}, headers={"Accept": accept})
    assert (response.headers["content-type"], response.text) == (content_type, body)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("look_up", {"word": "bus"}),
        ("look_up", {"word": "x" * 101}),
        ("list_words", {"word": "a", "count": "3"}),
        ("say", {}),
        ("fail", {}),
    ],
)
async def test_answers_agree_with_mcp(http, tool, arguments):
    """The structured result, the text, and of a failure its code, text and times."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}}  # fmt: skip
    headers = {"Accept": "application/json, text/event-stream",
               "MCP-Protocol-Version": "2025-11-25"}  # fmt: skip
    over_mcp = (await http.post("/mcp", json=body, headers=headers)).json()["result"]
    plain = await http.post(f"/api/v1/tools/{tool}", json=arguments)
    if over_mcp["isError"]:
        error = over_mcp["structuredContent"]["error"]
        problem = plain.json()
        assert (problem["code"], problem["detail"]) == (error["code"], error["message"])
        assert problem.get("retryable", False) == error["retryable"]
        assert problem.get("retry_after_ms") == error["retry_after_ms"]
    elif "structuredContent" in over_mcp:
        assert plain.json() == over_mcp["structuredContent"]
    else:
        assert plain.text == over_mcp["content"][0]["text"]


async def test_colliding_name_is_reached_by_its_toolset(http):
    """And under the name that /mcp lists."""
    for path in ("atlas/look_up", "tools/atlas_look_up"):
        assert (await http.post(f"/api/v1/{path}", json={})).text == "from the atlas"


async def test_no_body_stands_for_no_arguments(http):
    """A tool may need none."""
    headers = {"Content-Type": "application/json"}
    assert (await http.post("/api/v1/tools/say", headers=headers)).text == "hello"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/api/v1/tools/absent", 404, "not_found"),
        ("POST", "/api/v1/absent/look_up", 404, "not_found"),
        ("POST", "/api/v1/tools/secret", 404, "not_found"),
        ("POST", "/api/v1/tools/look_up", 400, "invalid_argument"),
        ("POST", "/api/v1/tools/fail", 429, "rate_limited"),
        ("POST", "/api/v1/tools/crash", 500, "internal"),
        ("GET", "/api/v1/tools/say", 405, "invalid_request"),
        ("POST", "/api/v1/tools", 405, "invalid_request"),
        ("GET", "/api/v1/tools/", 404, "not_found"),
        ("GET", "/api/v2", 404, "not_found"),
        ("GET", "/api", 404, "not_found"),
        ("GET", "/docs/start.jsx", 404, "not_found"),
        ("POST", "/openapi.json", 405, "invalid_request"),
        ("GET", "/openapi.json?toolset=absent", 404, "not_found"),
        ("GET", "/api/v1/tools?cursor=x", 400, "invalid_argument"),
        ("GET", "/api/v1/tools?query=x", 503, "unavailable"),
        ("GET", "/api/v1/tools?" + "a=1&" * 101, 400, "invalid_request"),
    ],
)
async def test_failure_is_a_problem(http, method, path, status, code):
    """With status, code and what to do."""
    body = {"json": {}} if method == "POST" else {}
    response = await http.request(method, path, **body)
    found = response.json()
    assert (response.status_code, found["status"], found["code"]) == (status, status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert found["detail"]
    assert "canary" not in response.text
    if status == 405:
        assert response.headers["allow"] in ("POST", "GET, HEAD")


async def test_limit_says_when_to_come_back(http):
    """In milliseconds, and in whole seconds."""
    response = await http.post("/api/v1/tools/fail", json={})
    assert (response.json()["retry_after_ms"], response.headers["retry-after"]) == (1500, "2")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": "text/html"}, 406),
        ({"Content-Type": "text/plain"}, 415),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
async def test_http_form_is_checked_as_for_mcp(http, headers, status):
    """A page of another origin calls nothing."""
    headers = {"Content-Type": "application/json", **headers}
    response = await http.post("/api/v1/tools/say", content=b"{}", headers=headers)
    assert (response.status_code, response.json()["status"]) == (status, status)


async def test_event_stream_has_progress_and_then_the_result(http):
    """One event each, in order."""
    headers = {"Accept": "text/event-stream"}
    response = await http.post("/api/v1/tools/steps", json={}, headers=headers)
    assert response.headers["content-type"] == "text/event-stream"
    *steps, result = events(response.text)
    assert [name for name, _ in steps] == ["progress"] * 3
    assert steps[0][1] == {"progress": 1.0, "total": 3.0, "message": "step 1"}
    assert result == ("result", {"content": [{"type": "text", "text": "done"}]})


async def test_failure_before_any_event_has_a_status_of_its_own(http):
    """A stream of nothing but a problem would look like success to a proxy."""
    headers = {"Accept": "text/event-stream"}
    response = await http.post("/api/v1/tools/fail", json={}, headers=headers)
    assert (response.status_code, response.json()["code"]) == (429, "rate_limited")


class Stumbling(Toolset, name="stumbling"):
    """A tool that fails after its first event."""

    @tool(title="Fall", untrusted=True)
    async def fall(self, call: Call, arguments: Nothing) -> str:
        """Falls."""
        await call.progress(1, 2, "on the way")
        raise Fault(ErrorCode.UPSTREAM_FAILED, "Away.")


async def test_failure_after_an_event_is_the_last_event(running, http):
    """The status was sent before; also that the text is of others, which a browser must not run."""
    worker = Worker("stumbling")
    worker.add(Stumbling())
    await running.broker.connect(name="stumbling").serve(worker)
    await until(lambda: running.edge.registry.offers("stumbling"))
    headers = {"Accept": "text/event-stream"}
    response = await http.post("/api/v1/tools/fall", json={}, headers=headers)
    (first, _), (name, problem) = events(response.text)
    assert (response.status_code, first, name) == (200, "progress", "problem")
    assert (problem["code"], problem["status"]) == ("upstream_failed", 502)
    assert response.headers["searchbus-untrusted"] == "true"
    assert "sandbox" in response.headers["content-security-policy"]


async def test_document_describes_the_list_of_tools(http):
    """By the page's own parameters and types; its answers fit."""
    document = (await http.get("/openapi.json")).json()
    operation = document["paths"]["/api/v1/tools"]["get"]
    assert list(document["paths"]["/api/v1/tools"]) == ["get"]
    assert [parameter["name"] for parameter in operation["parameters"]] == ["query", "cursor"]
    assert operation["x-openai-isConsequential"] is False
    reference = {"$ref": "#/components/responses/Problem"}
    assert operation["responses"]["400"] == operation["responses"]["default"] == reference
    assert "422" not in operation["responses"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    validator = jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})
    assert validator.is_valid((await http.get("/api/v1/tools")).json())
    assert not validator.is_valid({"tools": [{"name": "a"}]})
    assert set(document["components"]["schemas"]) >= {"Problem", "ToolPage", "ToolPageEntry"}
    entry = document["components"]["schemas"]["ToolPageEntry"]["properties"]
    assert "title" in entry
    assert not any("title" in part for part in entry.values())


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_client_that_leaves_cancels_the_call(running, http, accept):
    """In every form."""
    call = asyncio.create_task(http.post("/api/v1/tools/slow", json={}, headers={"Accept": accept}))
    await until(lambda: running.dictionary.started)
    call.cancel()
    await until(lambda: running.dictionary.cancelled)


async def test_client_that_leaves_does_not_wait_for_its_document(running, http, monkeypatch):
    """Its place at the edge is free, also where many wait for theirs."""
    seen, end = [], asyncio.Event()

    async def document(*_):
        seen.append("waits")
        try:
            await end.wait()
        finally:
            seen.append("left")

    monkeypatch.setattr(OpenApi, "document", document)
    request = asyncio.create_task(http.get("/openapi.json"))
    await until(lambda: seen)
    request.cancel()
    try:
        await until(lambda: seen == ["waits", "left"], timeout_s=20)
    finally:
        end.set()


async def test_pages_answer_head_requests(http):
    """As RFC 9110 asks for."""
    for path in ("/openapi.json", "/docs", "/api/v1/tools"):
        response = await http.head(path)
        assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("path", ["/openapi.json", "/openapi.json?toolset=atlas", "/api/v1/tools"])
async def test_client_that_has_the_tools_is_not_sent_them_again(http, running, path):
    """Until they change; a tag of something else, or of another address, is none."""
    first = await http.get(path)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    for known in (tag, f'"other", W/{tag}', "*"):
        again = await http.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert "content-type" not in again.headers
    for unknown in ("", '"other"', tag.strip('"'), "," * 5000):
        assert (await http.get(path, headers={"If-None-Match": unknown})).content == first.content
    later = Worker("later")
    later.add(Later())
    await running.broker.connect(name="later").serve(later)
    await until(lambda: "wait" in running.edge.registry.view(None).tools)
    changed = (await http.get(path, headers={"If-None-Match": tag})).status_code
    assert changed == (304 if "atlas" in path else 200)


@pytest.mark.parametrize("running", [{"http_interfaces": ()}], indirect=True)
@pytest.mark.parametrize("path", ["/api/v1/tools", "/openapi.json", "/docs"])
async def test_setting_switches_it_off(http, path):
    """MCP goes on."""
    assert (await http.get(path)).status_code == 404
    assert (await http.get("/")).json()["endpoints"]


def test_unknown_interface_is_refused():
    with pytest.raises(ValueError, match="http_interfaces"):
        EdgeSettings(http_interfaces=("gopher",))


DIRECTIVE = re.compile(r"([a-z-]+) ([^;]+)")


async def test_every_asset_of_the_page_is_served(http):
    """As relative addresses, with their media types."""
    page = await http.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(links) == 4
    for link in links:
        assert not link.startswith(("/", "http", "data:"))
        asset = await http.get(page.url.join(link))
        assert asset.status_code == 200
        assert len(asset.content) == int(asset.headers["content-length"]) > 100


async def test_scripts_and_styles_are_of_this_address_only(http):
    """Nothing inline, nothing evaluated, nothing loaded or sent elsewhere."""
    page = await http.get("/docs")
    policy = dict(DIRECTIVE.findall(page.headers["content-security-policy"]))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in page.headers["content-security-policy"]
    assert not re.search(r"<script>|<style|style=|\bon[a-z]+=", page.text)


async def test_page_shows_the_document(http):
    """Its address is relative to the page."""
    page = await http.get("/docs")
    script = (await http.get("/docs/start.js")).text
    (url,) = re.findall(r'url: "([^"]+)"', script)
    assert (await http.get(page.url.join(url))).json()["openapi"].startswith("3.1")


async def test_other_files_of_the_package_are_not_served():
    """Only those that the page names."""
    for name in ("swagger-ui.js", "../__init__.py"):
        with pytest.raises(HttpError) as raised:
            page_file(name)
        assert raised.value.status == 404
