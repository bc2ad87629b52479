"""What every source does, on both."""

from __future__ import annotations

import pytest

from searchbus_bus import Directory
from searchbus_contracts import ToolReply
from searchbus_edge.composites.documents import Documents

from .conftest import IDS, OPTIONS, SEARCHER, web_source


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
