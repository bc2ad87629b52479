"""Documents as resources: their URIs, pages through all of them, search by content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus import MemoryBroker
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceSearchReply,
    ResourceSearchRequest,
)
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.access import Access
from searchbus_retrieval.resources import parse_uri, uri_of
from searchbus_retrieval.service import build_worker

from .conftest import document


@given(st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True), st.text(min_size=1, max_size=60))
def test_every_id_makes_a_uri_that_is_read_back(collection, document_id):
    """Slashes, spaces and every script included; a lone surrogate is replaced first."""
    document_id = document_id.encode("utf-8", "replace").decode()
    assert parse_uri(uri_of(collection, document_id)) == (collection, document_id)


@pytest.mark.parametrize(
    "uri",
    ["", "searchbus://c", "searchbus://c/", "http://c/d", "searchbus://c d/e", "searchbus://c/%7e",
     "searchbus://c/a b"],
)  # fmt: skip
def test_any_other_uri_is_not_found(uri):
    """Only the one spelling that `uri_of` gives."""
    with pytest.raises(Fault, match="not_found"):
        parse_uri(uri)


@pytest.fixture
async def ask(library):
    for collection, count in (("a", 3), ("b", 1), ("d", 2)):
        for number in range(count):
            new = document(
                f"{collection}{number}", f"Whales of {collection}{number} sing.",
                collection=collection, metadata={"date": "2024-01-31"},
            )  # fmt: skip
            await library.store(collection, new)
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(library))
    bus = broker.connect()

    async def ask(verb, message, reply):
        return await bus.request(
            bus.subjects.resource("documents", verb), message, reply, service="retrieval",
            timeout_s=10, actor=Actor(subject="a"),
        )  # fmt: skip

    return ask


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 10])
async def test_pages_give_each_document_once(ask, limit):
    """In order of collections, whatever the size of a page."""
    seen, cursor = [], None
    while True:
        request = ResourceListRequest(limit=limit, cursor=cursor)
        page = await ask("list", request, ResourceListReply)
        assert len(page.resources) <= limit
        seen += [resource.uri for resource in page.resources]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(set(seen)) == len(seen) == 6
    assert [uri.split("/")[2] for uri in seen] == ["a"] * 3 + ["b"] + ["d"] * 2


async def test_pages_name_damaged_collections(library, monkeypatch):
    """Every page does, to callers who may read them; the others are listed."""
    for collection in ("a", "b", "secret"):
        new = document("w", "Whales sing.", collection=collection)
        await library.store(collection, new)
    damage = {"a": "its configuration is missing", "secret": "it is cut"}
    monkeypatch.setattr(type(library), "damaged", damage)
    broker = MemoryBroker()
    access = Access({"secret": ["OWNER"]})
    await broker.connect().serve(build_worker(library, access=access))
    bus = broker.connect()
    for roles, expected in (((), ["a"]), (("OWNER",), ["a", "secret"])):
        page = await bus.request(
            bus.subjects.resource("documents", "list"), ResourceListRequest(), ResourceListReply,
            service="retrieval", timeout_s=60, actor=Actor(subject="a", roles=roles),
        )  # fmt: skip
        assert [resource.uri for resource in page.resources] == [uri_of("b", document_id("b", "w"))]
        assert [part.source for part in page.coverage] == [f"documents/{n}" for n in expected]
        assert (page.coverage[0].state, page.coverage[0].code) == ("failed", "unavailable")
        assert "its configuration is missing" in page.coverage[0].message


async def test_search_finds_by_content_and_read_gives_the_text(ask):
    """An unrelated query finds nothing."""
    found = await ask("search", ResourceSearchRequest(query="whales of b0"), ResourceSearchReply)
    assert found.resources[0].description.startswith("b: 2024-01-31 … Whales of b0")
    uri = found.resources[0].uri
    read = await ask("read", ResourceReadRequest(uri=uri), ResourceReadReply)
    assert read.contents[0].text == "Whales of b0 sing."
    none = await ask("search", ResourceSearchRequest(query="repair a bicycle"), ResourceSearchReply)
    assert none.resources == ()


async def test_text_of_a_document_finds_it(ask, library):
    """A name, and any sentence, in other forms of dashes and quotes; both are near to nothing."""
    names = ", ".join(f"Member {number}" for number in range(150))
    sentence = "Voting for this were Ana-Lena Quince and the others; nobody's vote was against it."
    await library.store("b", document("list", f"{names}. {sentence}", collection="b"))
    for query in ("ana\u2011lena  QUINCE", sentence.replace("'", "\u2019")):
        found = await ask("search", ResourceSearchRequest(query=query), ResourceSearchReply)
        assert found.resources[0].name == "Title of list"


async def test_failed_collection_is_no_empty_result(ask, library, monkeypatch):
    """Unless another collection has something near."""
    answer = library.searcher.answer

    async def fail_in_d(collection, *args, **options):
        if collection == "d":
            raise Fault(ErrorCode.UNAVAILABLE, "Another model made it.")
        return await answer(collection, *args, **options)

    monkeypatch.setattr(library.searcher, "answer", fail_in_d)
    found = await ask("search", ResourceSearchRequest(query="whales of b0"), ResourceSearchReply)
    assert found.resources
    states = {part.source: part.state for part in found.coverage}
    assert states["documents/b"] == "answered"
    assert states["documents/d"] == "failed"
    with pytest.raises(Fault, match=r"could not be searched: d \(unavailable\)"):
        await ask("search", ResourceSearchRequest(query="repair a bicycle"), ResourceSearchReply)
