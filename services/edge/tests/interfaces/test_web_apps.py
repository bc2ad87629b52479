"""The interfaces of other search APIs over HTTP, of an edge with a small web service."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import httpx
import pytest

from searchbus_bus import MemoryBroker, Worker
from searchbus_edge.app import build_app
from searchbus_edge.auth.static_keys import KeyFile
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.http.body import STRANGER_BYTES
from searchbus_edge.interfaces import tavily as app
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer

from .small_web import ROLE, SmallWeb

INTERFACES = ("searxng", "tavily", "read")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Accept": "application/json"}
PAGE = "https://p1.example/"


@pytest.fixture
def start(serve):
    """Starts an edge with the web service; gives a client."""
    return partial(serve, (SmallWeb(),))


async def test_client_that_leaves_cancels_the_call():
    """At its worker, as over MCP."""
    broker, web, worker = MemoryBroker(), SmallWeb(), Worker("web")
    worker.add(web)
    await broker.connect(name="web").serve(worker)
    async with open_edge(broker.connect(name="edge"), EdgeSettings()) as edge:
        server = await HttpServer.start(build_app(edge, Health()))
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
            path = "/searxng?q=slow&format=json&categories=news"
            call = asyncio.create_task(http.get(path))
            await web.waiting.wait()
            call.cancel()
            await web.cancelled.wait()
        await server.stop()


@pytest.fixture
async def http(start):
    """A client of an edge without access control."""
    return await start()


async def test_searxng_answers_get_and_post(http):
    """At both of its addresses; a POST has its parameters in a form, or in the address."""
    params = {"q": "whale songs é", "format": "json"}
    answers = [
        await http.get("/searxng/search", params=params),
        await http.get("/searxng", params=params),
        await http.get("/searxng/", params=params),
        await http.post("/searxng/search", data=params),
        await http.post("/searxng/search?format=json", data={"q": params["q"]}),
    ]
    assert {answer.status_code for answer in answers} == {200}
    first = answers[0].json()
    assert [answer.json() for answer in answers[1:]] == [first] * 4
    assert first["query"] == first["results"][0]["title"] == "whale songs é"
    assert len(first["results"]) == 10


async def test_tavily_answers_search_and_extract(http):
    """With the text of pages where it is asked for."""
    body = {"query": "whales", "max_results": 2, "include_raw_content": True}
    answer = (await http.post("/tavily/search", json=body)).json()
    assert [result["url"] for result in answer["results"]] == [PAGE, "https://p2.example/"]
    assert "Text of the page." in answer["results"][1]["raw_content"]
    answer = await http.post("/tavily/extract", json={"urls": [PAGE, "https://nowhere.example/"]})
    assert [page["url"] for page in answer.json()["results"]] == [PAGE]
    assert answer.json()["failed_results"] == [
        {"url": "https://nowhere.example/", "error": "http_404"}
    ]


async def test_page_is_markdown_or_json(http):
    """As the client accepts it; either way its text stands between marks."""
    text = await http.get("/read", params={"url": PAGE})
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.text.startswith("<untrusted_text_ab>\nText of the page.")
    json = await http.get("/read", params={"url": PAGE}, headers=JSON)
    assert json.json()["content"] == text.text
    assert {text.headers["vary"], json.headers["vary"]} == {"accept"}


async def test_rest_of_a_page_is_linked(http):
    """RFC 8288; the address is one of this interface."""
    answer = await http.get("/read", params={"url": "https://long.example/"})
    url = answer.links["next"]["url"]
    assert url == "/read?url=https%3A%2F%2Flong.example%2F%23searchbus-start%3D5"
    assert (await http.get(url)).status_code == 200


async def test_rest_of_a_page_has_the_budget_of_its_beginning(http):
    """Each part has the same `max_tokens`."""
    given = {"url": "https://long.example/", "max_tokens": "200"}
    url = (await http.get("/read", params=given)).links["next"]["url"]
    assert httpx.URL(url).params["max_tokens"] == "200"
    assert (await http.get(url)).status_code == 200


async def test_address_that_is_not_escaped_reads_no_other_page(http):
    """A second url is a parameter of the first."""
    answer = await http.get(f"/read?url={PAGE}?x=1&url=https://long.example/")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


async def test_text_of_strangers_is_marked_and_inert(http):
    """On every interface."""
    for answer in (
        await http.get("/searxng", params={"q": "x", "format": "json"}),
        await http.post("/tavily/search", json={"query": "x"}),
        await http.get("/read", params={"url": PAGE}),
    ):
        assert answer.headers["searchbus-untrusted"] == "true"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]


SEARCHES = {
    "searxng": ("POST", "/searxng/search", lambda q: {"data": {"q": q, "format": "json"}}),
    "tavily": ("POST", "/tavily/search", lambda q: {"json": {"query": q}}),
}


def message(name: str, answer: httpx.Response) -> str:
    """The message of a failure, where the interface has it."""
    body = answer.json()
    return {
        "searxng": lambda: body["error"],
        "tavily": lambda: body["detail"]["error"],
        "read": lambda: body["detail"],
    }[name]()


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("code", ["rate_limited", "unavailable"])
async def test_failure_has_the_form_of_its_interface(http, name, code):
    """And the time to wait, in seconds."""
    method, path, content = SEARCHES[name]
    answer = await http.request(method, path, **content(code))
    assert answer.status_code == {"rate_limited": 429, "unavailable": 503}[code]
    assert message(name, answer) == "No."
    assert answer.headers["retry-after"] == "2"


@pytest.mark.parametrize("name", SEARCHES)
async def test_unexpected_failure_shows_nothing_internal(http, name):
    """A fixed text."""
    method, path, content = SEARCHES[name]
    answer = await http.request(method, path, **content("canary"))
    assert answer.status_code == 500
    assert "canary" not in answer.text
    assert "internal error" in message(name, answer)


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/searxng/search?q=x", {}, 403),
        ("GET", "/searxng/search?format=json", {}, 400),
        ("GET", "/searxng?format=json&" + "a=b&" * 101, {}, 400),
        ("POST", "/searxng?format=json", {"json": {"q": "x"}}, 415),
        ("DELETE", "/searxng", {}, 405),
        ("GET", "/searxng/nothing", {}, 404),
        ("POST", "/tavily/search", {"json": {}}, 400),
        ("POST", "/tavily/search", {"json": []}, 400),
        ("POST", "/tavily/search", {"content": b"{", "headers": FORM}, 415),
        ("POST", "/tavily/search", {"json": {"query": "x" * 300_000}}, 413),
        ("GET", "/tavily/search", {}, 405),
        ("POST", "/tavily/crawl", {"json": {"url": PAGE}}, 404),
        ("GET", "/read", {}, 400),
        ("GET", "/read?url=https%3A%2F%2Fnowhere.example", {}, 404),
        ("POST", "/read", {}, 405),
        ("GET", "/read/x", {}, 404),
    ],
)
async def test_wrong_request_is_refused(http, method, path, options, status):
    """With a sentence that says why, in the form of the interface."""
    answer = await http.request(method, path, **options)
    assert answer.status_code == status, answer.text
    assert message(path[1:].partition("/")[0].partition("?")[0], answer)
    if status == 405:
        assert method not in answer.headers["allow"]


@pytest.mark.parametrize("path", ["/searxng?q=x&format=json", "/read?url=https%3A%2F%2Fa.example"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
async def test_other_sites_cannot_use_the_browser(http, path, headers, status):
    """Neither by DNS rebinding nor by a picture whose address is a search."""
    assert (await http.get(path, headers=headers)).status_code == status


async def test_service_that_is_away_is_named(serve):
    """An answer without results would hide it."""
    http = await serve(())
    for name, (method, path, content) in SEARCHES.items():
        answer = await http.request(method, path, **content("x"))
        assert (answer.status_code, message(name, answer)) == (
            503,
            "No web service is running. Try again later.",
        )


@pytest.fixture
async def guarded(start, tmp_path):
    """A client of an edge with keys, a key with the role, and one without."""
    file = KeyFile(tmp_path / "keys.json")
    keys = [file.add(name, roles)[0] for name, roles in (("a", (ROLE,)), ("b", ("OTHER",)))]
    return await start(auth="static", keys_file=file.path), *keys


def requests(key: str) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """A request to each interface with a key in the header."""
    bearer = {"Authorization": f"Bearer {key}"}
    return {
        "searxng": ("GET", "/searxng?q=x&format=json", {"headers": bearer}),
        "tavily": ("POST", "/tavily/search", {"json": {"query": "x"}, "headers": bearer}),
        "read": ("GET", f"/read?url={PAGE}", {"headers": bearer}),
    }


@pytest.mark.parametrize("name", INTERFACES)
async def test_key_and_role_are_needed(guarded, name):
    """401 without a key, 403 without the role, in the form of the interface."""
    http, key, poor = guarded
    for given, status, says in ((key, 200, ""), ("sb_x_y", 401, "invalid_token"),
                                (poor, 403, "insufficient_scope")):  # fmt: skip
        method, path, options = requests(given)[name]
        answer = await http.request(method, path, **options)
        assert answer.status_code == status, answer.text
        if says:
            assert says in answer.headers["www-authenticate"]
            assert message(name, answer)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/searxng/nothing"), ("DELETE", "/searxng"), ("GET", "/tavily/search"),
     ("POST", "/tavily/crawl"), ("POST", "/read"), ("GET", "/api/v2"), ("POST", "/docs"),
     ("GET", "/api/v1/web/web_search_news"), ("PUT", "/api/v1/tools/absent")],
)  # fmt: skip
async def test_stranger_does_not_learn_which_addresses_there_are(guarded, method, path):
    """401 also where there is nothing, or no such method."""
    http, key, _ = guarded
    assert (await http.request(method, path)).status_code == 401
    known = await http.request(method, path, headers={"Authorization": f"Bearer {key}"})
    assert known.status_code in (404, 405)


async def test_key_of_tavily_may_stand_in_the_body(guarded):
    """The header wins, where there is one; a strange key does no harm."""
    http, key, poor = guarded

    async def status(body_key: Any, **headers: str) -> int:
        body = {"query": "x", "api_key": body_key}
        return (await http.post("/tavily/search", json=body, headers=headers)).status_code

    assert await status(key) == 200
    assert await status(poor) == 403
    assert await status(key, Authorization=f"Bearer {poor}") == 403
    assert [await status(strange) for strange in ("", "a b", "é\r\nx: y", 5, None)] == [401] * 5


async def test_body_that_is_read_before_its_key_is_small(guarded):
    """A key in the header allows the usual size, a key in the body does not."""
    http, key, _ = guarded
    body = {"query": "x", "api_key": key, "more": "x" * STRANGER_BYTES}
    assert (await http.post("/tavily/search", json=body)).status_code == 413
    headers = {"Authorization": f"Bearer {key}"}
    assert (await http.post("/tavily/search", json=body, headers=headers)).status_code == 200


async def test_values_of_strangers_are_not_made(guarded, monkeypatch):
    """Making them takes tens of times as long as looking for the key, and no limit counts them."""
    http, key, _ = guarded
    made = []
    read = app.read_arguments
    monkeypatch.setattr(app, "read_arguments", lambda body: made.append(body) or read(body))
    for given, status in ((key, 200), ("sb_x_y", 401), (None, 401)):
        body = {"query": "x", "api_key": given}
        assert (await http.post("/tavily/search", json=body)).status_code == status
    assert len(made) == 1
    assert (
        await http.post(
            "/tavily/search", content=b"{", headers={"Content-Type": "application/json"}
        )
    ).status_code == 401


OVER_MCP = {
    "headers": {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"},
    "json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
             "params": {"name": "web_search_news", "arguments": {"query": "x"}}},
}  # fmt: skip
EVERYWHERE = {
    **requests(""),
    "api": ("POST", "/api/v1/web/web_search_news", {"json": {"query": "x"}}),
    "mcp": ("POST", "/mcp/web", OVER_MCP),
}


@pytest.mark.parametrize("last", EVERYWHERE)
async def test_limits_count_all_interfaces_together(start, last):
    """Requests of one caller, whatever they ask, also over MCP."""
    http = await start(abuse_rate_per_s=0.001, abuse_burst=4)
    for name in (*(set(EVERYWHERE) - {last}), last):
        method, path, options = EVERYWHERE[name]
        status = (await http.request(method, path, **options)).status_code
        assert status == (429 if name == last else 200)


async def test_calls_of_all_interfaces_count_together(start):
    """Also those that one request makes: two, where it reads pages."""
    http = await start(call_rate_per_s=0.001, call_burst=4)
    await http.post("/tavily/search", json={"query": "x", "include_raw_content": True})
    assert (await http.get("/searxng?q=x&format=json")).status_code == 200
    assert (await http.post("/mcp/web", **OVER_MCP)).json()["result"]["isError"] is False
    answer = await http.get(f"/read?url={PAGE}")
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")


@pytest.mark.parametrize("off", INTERFACES)
async def test_each_interface_can_be_switched_off(off):
    """By its name in a setting; by default all are served."""
    names = EdgeSettings().http_interfaces
    assert set(INTERFACES) < set(names)
    settings = EdgeSettings(http_interfaces=tuple(name for name in names if name != off))
    async with open_edge(MemoryBroker().connect(name="edge"), settings) as edge:
        assert set(INTERFACES) - set(edge.interfaces) == {off}
