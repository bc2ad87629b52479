"""search, fetch and research_brief, with every way in which a source can fail."""

from __future__ import annotations

import asyncio
import json

import httpx
import jsonschema
import pytest
from mcp import Client

from searchbus_contracts.coverage import COVERAGE
from searchbus_edge.auth.signing import load_key
from searchbus_edge.composites import gathering
from searchbus_edge.composites.gathering import FAILURES
from searchbus_edge.composites.sources import Ids
from searchbus_testing import until

MODES = ["legacy", "auto"]
TEXT = {"type": "string", "minLength": 1}
SEARCH = {
    "type": "object", "required": ["results"], "additionalProperties": False,
    "properties": {"results": {"type": "array", "items": {
        "type": "object", "required": ["id", "title", "url"],
        "properties": {"id": TEXT, "title": TEXT, "url": TEXT | {"pattern": "^https?://"}},
    }}},
}  # fmt: skip
FETCH = {
    "type": "object", "required": ["id", "title", "text", "url"],
    "properties": {"id": TEXT, "title": TEXT, "text": TEXT, "url": TEXT | {"pattern": "^https?://"},
                   "metadata": {"type": "object"}},
}  # fmt: skip


def only_text(result, schema):
    """Exactly one text item, equal to the structured content, in the specification's form."""
    assert not result.is_error, result.content
    assert [block.type for block in result.content] == ["text"]
    value = json.loads(result.content[0].text)
    assert value == result.structured_content
    jsonschema.validate(value, schema)
    return value


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["/mcp/connector", "/mcp"])
async def test_search_then_fetch_everything(stack, mode, path):
    """Both sources, one page once, every url opens, every id resolves."""
    async with Client(stack.url + path, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        own = {"search", "fetch", "research_brief", "verify_quote"}
        assert own <= set(names)
        assert path == "/mcp" or set(names) == own
        assert path == "/mcp/connector" or "aaa_search" in names
        found = only_text(await client.call_tool("search", {"query": "whales"}), SEARCH)["results"]
        assert len(found) == 10
        books = [place for place, r in enumerate(found) if r["source"] == "documents/books"]
        assert books == [0, 1, 3]  # the first is the first of the web too
        assert {r["source"] for r in found} == {"documents/books", "web"}
        assert sum("books.example" in r["url"] for r in found) == 1
        for result in found:
            if result["url"].startswith("https://w8"):
                continue
            fetched = only_text(await client.call_tool("fetch", {"id": result["id"]}), FETCH)
            assert (fetched["id"], fetched["text"].count("whales") > 5) == (result["id"], True)
        document = (await client.call_tool("fetch", {"id": found[0]["id"]})).structured_content
        assert document["metadata"] == {
            "source": "documents", "collection": "books", "date": "2024-05-01", "type": "book",
            "untrusted": "true",
        }  # fmt: skip
    local = [r for r in found if r["url"].startswith(stack.url)]
    assert len(local) == 2  # the one without an address, and the local file
    async with httpx.AsyncClient() as http:
        for result in local:
            page = await http.get(result["url"])
            assert page.status_code == 200
            assert page.headers["content-type"] == "text/plain; charset=utf-8"
            assert page.text.startswith("Whales\n\nThe library")


async def test_documents_are_served_to_known_hosts_only(stack):
    """And unknown ones are not found."""
    async with httpx.AsyncClient(base_url=stack.url) as http:
        assert (await http.get("/documents/books/none")).status_code == 404
        assert (await http.get("/documents/../x/d0")).status_code == 404
        foreign = await http.get("/documents/books/d0", headers={"Host": "evil.example"})
        assert foreign.status_code == 421


@pytest.mark.parametrize(
    "forged",
    ["", "x", "doc:", "doc:books", "doc:books:", "doc:../etc:passwd", "doc:books:none", "web:", "web:a.b",
     "web:aHR0cDovL2V2aWwuZXhhbXBsZS8.AAAAAAAAAAAAAAAAAAAA", "web:é.x", "web:" + "A" * 9000, "https://evil.example/",
     "doc:books:" + "x" * 4000],
)  # fmt: skip
async def test_unknown_and_forged_ids_are_not_found(stack, forged):
    """A typed error; nothing is fetched, because fetch is not a proxy."""
    async with Client(f"{stack.url}/mcp/connector") as client:
        result = await client.call_tool("fetch", {"id": forged})
        assert result.is_error
        assert result.content[0].text.startswith("not_found: ")
    assert stack.sources.fetched == []


async def test_signature_of_a_page_fits_that_page_only(stack):
    """Changing the address or the signature makes the id invalid."""
    ids = Ids(load_key(stack.edge.settings.data_dir))
    other = Ids(b"another deployment's key" * 2)
    good = ids.of_page("https://w1.example/")
    assert ids.page(good) == "https://w1.example/"
    name, signature = good.removeprefix("web:").split(".")
    other_end = "B" if signature.endswith("A") else "A"
    for bad in (
        f"web:{name}.{signature[:-1]}{other_end}",
        f"web:{name[:-2]}AA.{signature}",
        other.of_page("https://w1.example/"),
    ):
        with pytest.raises(Exception, match="no such id"):
            ids.page(bad)


async def test_ids_outlive_the_edge(stack, tmp_path):
    """The key is kept in the data folder, readable by its owner only."""
    before = load_key(tmp_path)
    assert before == load_key(tmp_path)
    assert (tmp_path / "edge.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["retrieval", "web"])
@pytest.mark.parametrize(
    ("stack", "mode"),
    [({}, "garbage"), ({}, "fault"), ({}, "dead"), ({"call_timeout_cap_s": 6.0}, "slow")],
    indirect=["stack"],
)
async def test_one_failing_source_is_named_and_the_other_answers(stack, name, mode, monkeypatch):
    """By the deadline, in _meta, and never as an error of the whole.

    Without the deadline the slow source would answer as well, after a minute.
    """
    # Half of the six seconds is for the answer: a busy machine needs more than a sixth.
    monkeypatch.setattr(gathering, "SHARE", 0.5)
    async with Client(f"{stack.url}/mcp/connector") as client:
        # What the first call of all loads is not to be loaded within the deadline.
        await client.call_tool("search", {"query": "dolphins"})
        if mode == "dead":
            await stack.servings[name].drain(0.1)
        else:
            stack.sources.modes[name] = mode
        result = await client.call_tool("search", {"query": "whales"})
        found = only_text(result, SEARCH)["results"]
        wanted = "web" if name == "retrieval" else "documents/books"
        assert {r["source"] for r in found} == {wanted}
        (failed,) = result.meta[FAILURES]
        assert failed == ("documents" if name == "retrieval" else "web")
        assert result.meta[FAILURES][failed]["code"]
        states = {part["source"]: part["state"] for part in result.meta[COVERAGE]}
        assert states[failed] in ("failed", "blocked")
        assert states[wanted] == "answered"


async def test_all_sources_failing_is_an_error(stack):
    """Never an empty success."""
    stack.sources.modes |= {"retrieval": "fault", "web": "fault"}
    async with Client(f"{stack.url}/mcp/connector") as client:
        result = await client.call_tool("search", {"query": "whales"})
        assert result.is_error
        error = result.structured_content["error"]
        assert (error["code"], error["retry_after_ms"]) == ("upstream_blocked", 9000)
        empty = await client.call_tool("search", {"query": " "})
        assert empty.content[0].text.startswith("invalid_query: ")
        missing = await client.call_tool("search", {})
        assert missing.content[0].text.startswith("invalid_argument: ")


@pytest.mark.parametrize("mode", ["fault", "dead", "gone"])
@pytest.mark.parametrize("tool", ["search", "research_brief"])
async def test_no_document_and_no_web_is_an_error(stack, tool, mode):
    """An answer without results would say that the web has none."""
    stack.sources.modes["retrieval"] = "empty"
    if mode == "fault":
        stack.sources.modes["web"] = "fault"
    else:
        await stack.servings["web"].drain(0.1)
    if mode == "gone":  # as after the grace period
        stack.edge.directory._presence.grace_s = 0.0
        await until_gone(stack, "web")
    async with Client(f"{stack.url}/mcp/connector") as client:
        argument = "question" if tool == "research_brief" else "query"
        result = await client.call_tool(tool, {argument: "whales"})
        assert result.is_error
        assert "web: " in result.content[0].text
        expected = "upstream_blocked" if mode == "fault" else "unavailable"
        assert result.structured_content["error"]["code"] == expected
        stack.sources.modes["retrieval"] = "ok"
        result = await client.call_tool(tool, {argument: "whales"})
        assert not result.is_error
        assert list(result.meta[FAILURES]) == ["web"]


async def test_service_that_belongs_here_is_named_and_listed_however_long_it_is_away(stack):
    """A minute later it is not forgotten: answers would lack its results without a word."""
    stack.edge.directory._presence.expected = frozenset({"retrieval", "web"})
    stack.edge.directory._presence.grace_s = 0.0
    await stack.servings["retrieval"].drain(0.1)
    await stack.edge.directory.refresh()
    async with Client(f"{stack.url}/mcp/connector") as client:
        result = await client.call_tool("search", {"query": "whales"})
        ((source, failure),) = result.meta[FAILURES].items()
        assert (source, failure["code"]) == ("documents", "unavailable")
        assert "retrieval service has been away since" in failure["message"]
    await stack.servings["web"].drain(0.1)
    await stack.edge.directory.refresh()
    async with Client(f"{stack.url}/mcp/web") as client:
        assert "web_search" in {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("web_search", {"query": "whales"})
        assert result.is_error
        assert result.structured_content["error"]["code"] == "unavailable"
        assert "The web service has been away since" in result.content[0].text


async def until_gone(stack, service: str) -> None:
    """Discover until the directory no longer lists the service."""
    for _ in range(10):
        await stack.edge.directory.refresh()
        if not stack.edge.directory.listed(service):
            return
    raise AssertionError(f"{service} is still listed")


@pytest.mark.parametrize("stack", [{"roles": ("READER",)}], indirect=True)
async def test_caller_without_the_role_gets_documents_only(stack):
    """It is told so; the web is neither searched nor fetched for it."""
    ids = Ids(load_key(stack.edge.settings.data_dir))
    async with Client(f"{stack.url}/mcp/connector") as client:
        result = await client.call_tool("search", {"query": "whales"})
        answer = only_text(result, SEARCH)
        assert {r["source"] for r in answer["results"]} == {"documents/books"}
        ((source, left_out),) = result.meta[FAILURES].items()
        assert (source, left_out["code"]) == ("web", "forbidden")
        assert "MCP-WEB-SEARCH" in left_out["message"]
        page = await client.call_tool("fetch", {"id": ids.of_page("https://w1.example/")})
        assert page.content[0].text.startswith("not_found: ")
    assert stack.sources.fetched == []


@pytest.mark.parametrize("stack", [{"connector_sources": {"web": 1.0}}], indirect=True)
async def test_sources_are_configurable(stack):
    """One that is left out is not asked."""
    async with Client(f"{stack.url}/mcp/connector") as client:
        result = await client.call_tool("search", {"query": "whales"})
        assert {r["source"] for r in result.structured_content["results"]} == {"web"}


@pytest.mark.parametrize("mode", MODES)
async def test_client_that_leaves_cancels_every_source(stack, mode):
    """Both workers stop; without that they would be busy for a minute."""
    stack.sources.modes |= {"retrieval": "slow", "web": "slow"}
    if mode == "auto":
        async with Client(f"{stack.url}/mcp/connector", mode=mode) as client:
            await cancel_and_wait(stack, client.call_tool("search", {"query": "whales"}))
    else:  # a stateless edge learns of an older client's cancellation when its stream closes
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "search", "arguments": {"query": "whales"}}}  # fmt: skip
        headers = {"Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(timeout=30) as http:
            post = http.post(f"{stack.url}/mcp/connector", json=body, headers=headers)
            await cancel_and_wait(stack, post)


async def cancel_and_wait(stack, call) -> None:
    asking = asyncio.ensure_future(call)
    await until(lambda: stack.sources.started == 2)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: stack.sources.cancelled == 2)


@pytest.mark.parametrize("mode", MODES)
async def test_research_brief_cites_what_it_read(stack, mode):
    """Progress on the way; passages with the number of their source; a dead page is named."""
    seen = []

    async def on_progress(progress, total, message):
        seen.append((progress, total, message))

    async with Client(f"{stack.url}/mcp/connector", mode=mode) as client:
        result = await client.call_tool(
            "research_brief", {"question": "why do whales sing"}, progress_callback=on_progress
        )
    brief = result.structured_content
    assert [p for p, _, _ in seen] == [0, 1, 2, 3]
    numbers = {source["citation"] for source in brief["sources"]}
    assert {passage["citation"] for passage in brief["passages"]} == numbers
    assert numbers
    assert any("whales sing" in passage["text"] for passage in brief["passages"])
    assert len(brief["passages"]) <= 4
    assert "failures" not in brief
    assert all(source["url"].startswith("http") for source in brief["sources"])
    pages = {s["citation"] for s in brief["sources"] if s["source"] == "web"}
    for passage in brief["passages"]:
        marked = passage["text"].startswith("<untrusted_text_ab>\n")
        assert marked is passage["text"].endswith("\n</untrusted_text_ab>")
        assert marked is (passage["citation"] in pages)


async def test_connector_is_found_by_tool_search(stack):
    """It is a worker like any other: the catalogue holds it."""
    assert "connector" in stack.edge.registry.toolsets
    assert stack.edge.registry.view(None).tools["search"].descriptor.toolset == "connector"


@pytest.mark.parametrize("stack", [{"costly_rate_per_s": 0.01, "costly_burst": 2}], indirect=True)
async def test_sources_meet_the_limits_and_the_audit_log_of_their_tools(stack, caplog):
    """A web search that costs money is counted for its caller, whatever tool it came through."""
    caplog.set_level("INFO", "searchbus.audit")
    listed = stack.edge.registry.view(None).tool_of["web", "web_search"]
    assert listed.descriptor.costly
    async with Client(f"{stack.url}/mcp/connector") as client:
        for _ in range(2):
            result = await client.call_tool("search", {"query": "whales"})
            assert FAILURES not in (result.meta or {})
        limited = await client.call_tool("search", {"query": "whales"})
    assert limited.meta[FAILURES]["web"]["code"] == "rate_limited"
    assert {r["source"] for r in limited.structured_content["results"]} == {"documents/books"}
    stack.edge.audit.flush()
    records = [r for r in caplog.records if r.name == "searchbus.audit"]
    found = [json.loads(line) for r in records for line in r.lines]
    lines = [(line["tool"], line["outcome"]) for line in found]
    assert lines.count(("search", "ok")) == 3
    assert lines.count(("web_search", "ok")) == 2
    assert lines.count(("web_search", "rate_limited")) == 1
