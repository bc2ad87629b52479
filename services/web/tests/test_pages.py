"""read_page and page_data over the bus."""

from __future__ import annotations

from functools import partial

import pytest

from searchbus_contracts import Fault
from searchbus_web.extraction import extractor
from searchbus_web.pages.tools import MAX_SCHEMA_BYTES

HOST = "http://pages.example.org"


async def read(web, *paths: str, **arguments):
    urls = [p if "://" in p else HOST + p for p in paths]
    return (await web.call("read_page", toolset="pages", urls=urls, **arguments))["items"]


async def data(web, path: str, properties: dict, **arguments):
    schema = {"type": "object", "properties": properties, **arguments.pop("schema", {})}
    return await web.call("page_data", toolset="pages", url=HOST + path, schema=schema, **arguments)


async def test_sentences_that_answer_have_links_to_their_places(web):
    """Without the rest of the text; no query gives the whole text."""
    await web.start()
    (item,) = await read(web, "/article", query="how far do the notes of whales travel?")
    assert item.get("content", "") == ""
    best = item["highlights"][0]
    assert best["url"].startswith(f"{HOST}/article#:~:text=The%20blue%20whale%20sings%20in%20long,")
    assert (best["score"], best["paragraph"] > 0) == (1.0, True)
    (whole,) = await read(web, "/article")
    assert "highlights" not in whole
    assert "long low notes" in whole["content"]
    assert "long low notes" in whole["content"][best["start"] : best["end"] + 200]
    assert [heading["text"] for heading in whole["headings"]] == ["Songs of whales", "Sizes"]


async def test_section_paragraphs_and_links(web):
    """A part that is not there says what there is."""
    await web.start()
    (item,) = await read(web, "/article", section="sizes", links=True)
    assert "first item" in item["content"]
    assert "long low notes" not in item["content"].partition("first item")[0]
    assert item["title"] == "Songs of whales"
    assert [link["url"] for link in item["links"]] == [f"{HOST}/", f"{HOST}/shop"]
    (item,) = await read(web, "/article", paragraphs="1")
    assert "# Songs of whales" in item["content"]
    (item,) = await read(web, "/article", section="Prices")
    assert ("no heading 'Prices'" in item["message"], item["status"]) == (True, "ok")
    (item,) = await read(web, "/article", paragraphs="900-")
    assert "has only" in item["message"]
    with pytest.raises(Fault):
        await read(web, "/article", paragraphs="3", section="Sizes")


async def test_rest_of_a_part_follows_by_its_cursor(web):
    """Within the budget, to the end of the part."""
    await web.start()
    url, ends = "/long", [0]
    while url:
        (item,) = await read(web, url, paragraphs="1-2", maxTokens=3000)
        assert item.get("start", 0) - ends[-1] in (0, 1)
        ends.append(item["end"])
        url = item.get("cursor")
    assert len(ends) > 2
    assert not item.get("truncated")
    assert 50_000 < ends[-1] <= item["chars"]


async def test_max_age_decides_whether_a_page_is_fetched_again(web):
    """0 always fetches; the time of the fetch is shown."""
    await web.start()
    for arguments, fetched in [({}, 1), ({}, 1), ({"maxAgeS": 600}, 1), ({"maxAgeS": 0}, 2)]:
        (item,) = await read(web, "/article", **arguments)
        assert web.fake.calls["/article"] == fetched
        assert item["fetchedAt"].endswith("Z")


async def test_data_of_a_page_by_a_schema(web):
    """With the source of each value; what is not there is missing."""
    await web.start()
    found = await data(web, "/product", {
        "name": {"type": "string"}, "price": {"type": "number"}, "colour": {"type": "string"},
    }, schema={"required": ["colour"]})  # fmt: skip
    assert found["data"] == {"name": "Okapi toy", "price": 19.9}
    assert found["sources"] == {
        "/name": "json-ld Product.name", "/price": "json-ld Product.offers.price",
    }  # fmt: skip
    assert (found["missing"], found.get("valid", False)) == (["/colour"], False)
    found = await data(web, "/data.json", {"name": {"type": "string"}})
    assert (found["data"], found["sources"]) == ({"name": "Blå"}, {"/name": "json.whale.name"})
    found = await data(web, "/notes.txt", {"name": {"type": "string"}})
    assert (found["status"], found["data"]) == ("ok", {})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://evil.example.com/schema.json"}, {"$ref": "file:///etc/passwd"},
        {"description": "x" * MAX_SCHEMA_BYTES}, {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]}, {"properties": {"a": {"pattern": "x" * 2000}}},
    ],
    ids=range(6),
)  # fmt: skip
async def test_schema_that_could_cost_too_much_is_refused(web, schema):
    """Before anything is fetched."""
    await web.start()
    with pytest.raises(Fault) as caught:
        await web.call("page_data", toolset="pages", url=f"{HOST}/product", schema=schema)
    assert caught.value.code == "invalid_argument"
    assert "schema" in caught.value.failure.message
    assert not web.fake.calls


async def test_page_that_takes_too_long_costs_its_process_only(web_with_processes):
    """A pattern without end and a page with 300,000 attributes; then another page is read."""
    web = web_with_processes
    await web.start(extract_page_timeout_s=5.0)
    (item,) = await read(web, "/attributes", links=True)
    assert item["status"] == "too_complex"
    found = await data(web, "/product", {"name": {"type": "string", "pattern": "^(a+)+$"}})
    assert found["status"] in ("ok", "too_complex")
    found = await data(web, "/product", {"name": {"type": "string"}})
    assert found["data"] == {"name": "Okapi toy"}


ADDRESSES = (
    "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data/", "http://2130706433/",
    "http://[::ffff:127.0.0.1]/", "file:///etc/passwd", "http://localhost/", "http://u:p@a.org:99/",
    "http://pages.example.org/inside",
)  # fmt: skip


async def test_data_is_of_one_page(web):
    """Several addresses are refused, and one that is none is a status."""
    await web.start()
    call = partial(web.call, "page_data", toolset="pages", schema={"type": "object"})
    with pytest.raises(Fault, match="at most 1") as caught:
        await call(url=f'["{HOST}/product", "{HOST}/article"]')
    assert caught.value.code == "invalid_argument"
    assert (await call(url=" "))["status"] == "invalid_url"
    assert (await call(url=f'["{HOST}/product"]'))["status"] == "ok"


async def test_addresses_that_are_not_public_are_not_fetched(web):
    """By either tool, also behind a redirect."""
    await web.start()
    for address in ADDRESSES:
        (item,) = await read(web, address)
        assert item["status"] in ("blocked_by_policy", "invalid_url", "dns"), address
        found = await web.call("page_data", toolset="pages", url=address, schema={"type": "object"})
        assert found["status"] == item["status"]


async def test_answer_keeps_its_budget(web):
    """Data that would not fit is refused, not cut."""
    await web.start()
    listed = {"type": "array", "items": {"type": "string"}}
    with pytest.raises(Fault) as caught:
        await data(web, "/product", {"keywords": listed}, maxTokens=100)
    assert "maxTokens" in caught.value.failure.message
    with pytest.raises(Fault):
        await read(web, "/article", maxTokens=100, links=True)


@pytest.mark.parametrize("tool", ["read_page", "page_data"])
async def test_role_is_required(web, tool):
    """In the worker as well; nothing is fetched."""
    await web.start()
    given = {"urls": [HOST]} if tool == "read_page" else {"url": HOST, "schema": {}}
    with pytest.raises(Fault) as caught:
        await web.call(tool, toolset="pages", roles=(), **given)
    assert caught.value.code == "forbidden"
    assert not web.fake.calls


async def test_deadline_ends_both_tools(web, monkeypatch):
    """With a status, in the caller's time."""
    monkeypatch.setattr(extractor, "_SHARE", 0.1)  # much is left for the reply on a busy machine
    await web.start()
    (item,) = await read(web, "/drip", timeout_s=15.0)
    assert item["status"] == "timeout"
    found = await data(web, "/drip", {"a": {}}, timeout_s=15.0)
    assert found["status"] == "timeout"
