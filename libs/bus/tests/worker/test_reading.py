"""Which method reads a URI."""

from __future__ import annotations

import pytest

from searchbus_bus.worker.worker import ResourceReader
from searchbus_contracts import Fault, ResourceBody, ResourceReadReply, ResourceReadRequest


def reading(name: str):
    async def read(call, request: ResourceReadRequest) -> ResourceReadReply:
        return ResourceReadReply(contents=(ResourceBody(uri=request.uri, text=name),))

    return read


@pytest.fixture
def reader() -> ResourceReader:
    reader = ResourceReader()
    reader.add_fixed("notes://about", reading("about"))
    reader.add_fixed("notes://list/index", reading("index"))
    reader.add_family("notes://{folder}/{name}", reading("note"))
    reader.add_family("notes://{name}.txt", reading("text"))
    return reader


@pytest.mark.parametrize(
    ("uri", "method"),
    [
        ("notes://about", "about"),
        ("notes://list/index", "index"),
        ("notes://list/other", "note"),
        ("notes://a%20b/c", "note"),
        ("notes://x.txt", "text"),
        ("notes://a/x.txt", "note"),
    ],
)
async def test_a_fixed_uri_comes_before_a_template(reader, uri, method):
    """And a variable matches one path segment."""
    reply = await reader(None, ResourceReadRequest(uri=uri))
    assert reply.contents[0].text == method


@pytest.mark.parametrize(
    "uri", ["notes://", "notes://a/b/c", "notes:///b", "other://a/b", "notes://xtxt", "notes://a/"]
)
async def test_other_uris_are_not_found(reader, uri):
    """Typed, without the URI in the message."""
    with pytest.raises(Fault) as caught:
        await reader(None, ResourceReadRequest(uri=uri))
    assert caught.value.code == "not_found"
