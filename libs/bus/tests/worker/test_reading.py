"""Which method reads a URI."""

from __future__ import annotations

import pytest

from searchbus_bus import Call, Toolset, Worker, resource, resource_template
from searchbus_contracts import Fault, ResourceBody, ResourceReadReply, ResourceReadRequest


def reading(name: str, request: ResourceReadRequest) -> ResourceReadReply:
    return ResourceReadReply(contents=(ResourceBody(uri=request.uri, text=name),))


class Notes(Toolset, name="notes"):
    """Methods in an order that says nothing."""

    @resource_template("notes://{folder}/{name}")
    async def a_note(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A note."""
        return reading("note", request)

    @resource_template("notes://{name}.txt")
    async def b_text(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A text."""
        return reading("text", request)

    @resource("notes://about")
    async def c_about(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """About the notes."""
        return reading("about", request)

    @resource("notes://list/index")
    async def d_index(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """The index."""
        return reading("index", request)


@pytest.fixture
def reader():
    worker = Worker("notes")
    worker.add(Notes())
    return worker.content_endpoints["resource", "notes", "read"].handler


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
