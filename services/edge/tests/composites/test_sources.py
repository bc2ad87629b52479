"""Sources and ids: ids are read back exactly, refused when changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus import Directory
from searchbus_contracts import Fault, ToolReply
from searchbus_edge.composites.documents import Documents
from searchbus_edge.composites.sources import Ids

from .conftest import IDS, OPTIONS, SEARCHER, web_source

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)


@given(TEXT)
def test_ids_give_back_what_they_name(text):
    """Any document id, any URL."""
    assert IDS.document(IDS.of_document("books", text)) == ("books", text)
    assert IDS.page(IDS.of_page(text)) == text


def test_kinds_are_told_apart():
    """None, so that another source may know the id."""
    assert IDS.document(IDS.of_page("https://x")) is None
    assert IDS.page(IDS.of_document("books", "a")) is None


@pytest.mark.parametrize("text", ["doc:", "doc:books", "doc:books:", "doc:b*:a", "doc::a"])
def test_malformed_document_ids_are_not_found(text):
    """The remedy is in the message."""
    with pytest.raises(Fault, match="Take the id from a search result"):
        IDS.document(text)


def test_changed_page_ids_are_not_found():
    """Every character counts: fetch is no proxy."""
    good = IDS.of_page("https://x.example/a")
    name, _, signature = good.removeprefix("web:").partition(".")
    other = IDS.of_page("https://y.example/a").partition(".")[0]
    bad = [
        good[:-1], good + "A", good + "=", good.replace(".", ".."), f"{other}.{signature}",
        f"web:{name}", f"web:{name}.", f"web:.{signature}", "web:", "web:é.é",
        f"web:{name}.{signature.swapcase()}", Ids(b"x" * 32).of_page("https://x.example/a"),
        "web:" + "a" * 9000,
    ]  # fmt: skip
    for text in bad:
        with pytest.raises(Fault):
            IDS.page(text)
    assert IDS.page(good) == "https://x.example/a"


def test_ids_of_earlier_releases_stay_valid():
    """Clients keep ids; this one was issued before."""
    old = "web:aHR0cHM6Ly94LmV4YW1wbGUvYQ.QyNDuNV59y5AzeAcgm5N"
    assert IDS.of_page("https://x.example/a") == old


@pytest.mark.parametrize("position", [0, 1])
async def test_source_finds_hits_that_it_fetches(setup, position):
    """A hit names its source, and no other source has its id."""
    source, other, replies = setup[position], setup[1 - position], setup[3]
    rows = [{"title": "X", "url": "https://x", "snippet": "About whales."}]
    replies["web_search"] = ToolReply(structured={"results": rows})
    items = [{"url": "https://x", "content": "Whales sing.", "status": "ok"}]
    replies["web_extract_content"] = ToolReply(structured={"items": items})
    assert source.absence(SEARCHER) is None
    hit = (await source.search("whales", 10, passages=2, **OPTIONS)).hits[0]
    assert hit.source.partition("/")[0] == source.name
    assert (await source.fetch(hit.id, **OPTIONS)).id == hit.id
    assert await other.fetch(hit.id, **OPTIONS) is None


async def test_source_without_its_service_is_unavailable(bus):
    """It is known before a request is sent."""
    directory = Directory(bus)
    await directory.start()
    documents = Documents(bus, IDS, directory, base_url="https://edge.example")
    for source in (documents, web_source(bus, directory)):
        why = source.absence(SEARCHER)
        assert (why.code, why.retryable) == ("unavailable", True)
    await directory.close()
