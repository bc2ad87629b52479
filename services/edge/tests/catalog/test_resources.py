"""Resources: fixed ones from the registry, families from their workers page by page."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError

from searchbus_bus import Call, Toolset, Worker, resource_list, resource_template
from searchbus_contracts import (
    Actor,
    Fault,
    ResourceDescriptor,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
)
from searchbus_contracts.coverage import SourceCoverage
from searchbus_edge.auth.signing import UNKNOWN_CURSOR, Cursors
from searchbus_edge.catalog.resources import Resources
from searchbus_testing import known

from ..conftest import UsedUp, uncounted


class Books(Toolset, name="books"):
    torn = False

    @resource_template("books://{book}", required_roles=("READER",))
    async def read_book(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """One book."""
        return ResourceReadReply(contents=())

    @resource_list
    async def list_books(self, call: Call, request: ResourceListRequest) -> ResourceListReply:
        start = int(request.cursor or 0)
        books = tuple(
            ResourceDescriptor(uri=f"books://{n}", name=str(n), toolset="books")
            for n in range(start, min(3, start + request.limit))
        )
        following = str(start + request.limit) if start + request.limit < 3 else None
        torn = SourceCoverage.of_failure("books/torn", Fault("unavailable", "It is torn.").failure)
        return ResourceListReply(
            resources=books, next_cursor=following, coverage=(torn,) if self.torn else ()
        )


@pytest.fixture
async def view(registry, directory, broker):
    worker = Worker("books")
    worker.add(Books())
    await broker.connect(name="books").serve(worker)
    await known(directory, "books")
    return registry.view(None)


@pytest.fixture
def resources(bus):
    return Resources(bus, Cursors(b"k" * 32), uncounted(bus), page_size=2)


async def test_lists_of_workers_count_as_calls(bus, reader, view):
    """They show documents; the fixed resources are known here."""
    read = UsedUp()
    resources = Resources(bus, Cursors(b"k" * 32), read, page_size=2)
    first = await resources.list_page(reader, view, None)
    with pytest.raises(Fault, match="Too many calls"):
        await resources.list_page(reader, view, first.next_cursor)
    assert read.asked == ["resources/list books"]


async def walk(resources, actor, view):
    found, cursor = [], None
    while True:
        page = await resources.list_page(actor, view, cursor)
        found.append([resource.uri for resource in page.resources])
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_fixed_resources_come_before_those_of_workers(resources, reader, view):
    """Each once; families that the caller may not read are left out."""
    assert await walk(resources, reader, view) == [
        ["dict://all"], ["books://0", "books://1"], ["books://2"],
    ]  # fmt: skip
    assert await walk(resources, Actor(subject="b", roles=()), view) == [["dict://all"]]


async def test_what_cannot_be_listed_is_named(resources, reader, view, monkeypatch):
    """In `_meta`, on every page of its worker; a whole list has none."""
    page = await resources.list_page(reader, view, None)
    whole = await resources.list_page(reader, view, page.next_cursor)
    assert (page.meta, whole.meta) == (None, None)
    monkeypatch.setattr(Books, "torn", True)
    for _ in range(2):
        page = await resources.list_page(reader, view, page.next_cursor)
        (named,) = page.meta["dev.searchbus/coverage"]
        assert (named["source"], named["state"], named["code"]) == (
            "books/torn", "failed", "unavailable",
        )  # fmt: skip


async def test_cursor_of_another_caller_is_refused(resources, reader, view):
    """It names the caller and the roles."""
    cursor = (await resources.list_page(reader, view, None)).next_cursor
    other = Actor(subject="other", roles=reader.roles)
    for actor, bad in ((other, cursor), (reader, cursor + "A"), (reader, "")):
        with pytest.raises(MCPError) as caught:
            await resources.list_page(actor, view, bad)
        assert caught.value.error.message == UNKNOWN_CURSOR


async def test_cursor_of_a_vanished_toolset_is_refused(
    resources, reader, view, registry, directory
):
    """The client starts again."""
    cursor = (await resources.list_page(reader, view, None)).next_cursor
    import dataclasses

    without = dataclasses.replace(view, templates=())
    with pytest.raises(MCPError) as caught:
        await resources.list_page(reader, without, cursor)
    assert caught.value.error.message == UNKNOWN_CURSOR


async def test_resource_is_read_from_its_worker(resources, reader, view):
    """By its URI, fixed or of a family."""
    for uri in ("dict://all", "dict://word/bus"):
        read = await resources.read(reader, view, uri, revision="2026-07-28")
        assert read.contents[0].text == f"about {uri}"


@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_unknown_and_hidden_resources_look_the_same(resources, view, revision, code):
    """With the code of the revision."""
    nobody = Actor(subject="b", roles=())
    for uri in ("dict://nope", "dict://word/none", "books://1", "dict://word/" + "x" * 3000):
        with pytest.raises(MCPError) as caught:
            await resources.read(nobody, view, uri, revision=revision)
        assert (caught.value.error.code, caught.value.error.message) == (code, "Resource not found")
        assert len(caught.value.error.data["uri"]) <= 2048
