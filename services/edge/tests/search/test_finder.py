"""The finder: ranks of the index mapped to the names of an endpoint, page by page."""

from __future__ import annotations

import pytest

from searchbus_bus import Call, Toolset, Worker, endpoint, resource_search, resource_template
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ResourceDescriptor,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceSearchReply,
    ResourceSearchRequest,
)
from searchbus_contracts.toolindex import (
    MAX_FIND_CHARS,
    Considered,
    FindExplanation,
    FindReply,
    FindRequest,
    Found,
)
from searchbus_edge.auth.signing import Cursors
from searchbus_edge.search.finder import Finder
from searchbus_edge.tools.limits import LocalLimiter
from searchbus_testing import known


class Index:
    """Finds `names` of the toolset dictionary, in that order."""

    def __init__(self):
        self.names: list[str] = []
        self.requests: list[FindRequest] = []
        self.fault: Fault | None = None
        self.explanation: FindExplanation | None = None
        self.first_page = 0

    @endpoint
    async def search(self, call: Call, request: FindRequest) -> FindReply:
        self.requests.append(request)
        if self.fault:
            raise self.fault
        limit = request.limit
        if request.first_page and not request.offset:
            limit = min(limit, self.first_page or limit)
        page = self.names[request.offset : request.offset + limit]
        return FindReply(
            found=tuple(
                Found(toolset="dictionary", name=name, score=1.0, cosine=1.0) for name in page
            ),
            total=len(self.names),
            first_page=self.first_page,
            generation="g1",
            explanation=self.explanation if request.explain else None,
        )


class Books(Toolset, name="books"):
    names = ("1", "2")
    fault: Fault | None = None

    @resource_template("books://{book}")
    async def read_book(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """One book."""
        return ResourceReadReply(contents=())

    @resource_search
    async def find_books(self, call: Call, request: ResourceSearchRequest) -> ResourceSearchReply:
        if self.fault:
            raise self.fault
        return ResourceSearchReply(resources=tuple(
            ResourceDescriptor(uri=f"books://{name}", name=name, toolset="books")
            for name in self.names
        ))  # fmt: skip


@pytest.fixture
async def index(broker):
    index = Index()
    worker = Worker("toolindex")
    worker.add(index)
    await broker.connect(name="toolindex").serve(worker)
    return index


@pytest.fixture
async def finder(bus, index, directory):
    await known(directory, "toolindex")
    return Finder(bus, directory, Cursors(b"k" * 32), LocalLimiter(0, 1), enabled=True)


async def test_search_is_offered_while_an_index_is_listed(bus, directory, broker):
    """And by the setting."""
    options = (bus, directory, Cursors(b"k" * 32), LocalLimiter(0, 1))
    assert not Finder(*options, enabled=True).offered()
    worker = Worker("toolindex")
    worker.add(Index())
    await broker.connect(name="toolindex").serve(worker)
    await known(directory, "toolindex")
    assert Finder(*options, enabled=True).offered()
    assert not Finder(*options, enabled=False).offered()


async def test_tools_are_mapped_to_listed_and_visible_ones(finder, index, registry, reader):
    """In the order of the index; the endpoint's toolset goes along."""
    index.names = ["say", "absent", "secret", "look_up"]
    found, cursor = await finder.tools(reader, registry.view("dictionary"), " a  query ", None)
    assert [tool.name for tool in found] == ["say", "look_up"]
    assert cursor is None
    assert (index.requests[0].query, index.requests[0].toolsets) == ("a query", ("dictionary",))
    best, _ = await finder.best_tools(reader, registry.view(None), "q", 1)
    assert [tool.name for tool in best] == ["say"]
    assert index.requests[1].toolsets == ()


async def test_lines_of_a_request_for_tools_stay(finder, index, books, registry, reader):
    """Each is searched by itself, and the explanation is of what is ranked."""
    view, query = registry.view(None), " Send a mail. \n\n  draw\ta chart \n"
    await finder.tools(reader, view, query, None)
    await finder.best_tools(reader, view, query, 1)
    await finder.explain_tools(reader, view, query)
    await finder.resources(reader, view, query, None)
    lines = "Send a mail.\ndraw a chart"
    assert [r.query for r in index.requests] == [lines, lines, lines, "Send a mail. draw a chart"]


async def test_pages_follow_each_other(finder, index, registry, reader):
    """The cursor holds position and generation, for this query and caller only."""
    index.names = ["say"] * 25
    view = registry.view(None)
    _, cursor = await finder.tools(reader, view, "q", None)
    _, cursor2 = await finder.tools(reader, view, "q", cursor)
    assert [r.offset for r in index.requests] == [0, 10]
    assert index.requests[1].generation == "g1"
    assert (await finder.tools(reader, view, "q", cursor2))[1] is None
    other = Actor(subject="other", roles=reader.roles)
    for actor, query, bad in ((other, "q", cursor), (reader, "other", cursor), (reader, "q", "x")):
        with pytest.raises(Fault, match="Unknown cursor"):
            await finder.tools(actor, view, query, bad)
    with pytest.raises(Fault, match="Unknown cursor"):
        await finder.prompts(reader, view, "q", cursor)


async def test_first_page_ends_where_scores_fall_off(finder, index, registry, reader):
    """The rest is on the following pages, which are full ones."""
    index.names, index.first_page = ["say"] * 25, 4
    view = registry.view(None)
    pages, cursor = [], None
    while not pages or cursor:
        found, cursor = await finder.tools(reader, view, "q", cursor)
        pages.append(len(found))
    assert pages == [4, 10, 10, 1]
    assert [r.offset for r in index.requests] == [0, 4, 14, 24]
    assert len((await finder.best_tools(reader, view, "q", 10))[0]) == 10


async def test_prompts_have_their_listed_names(finder, index, registry, reader):
    """As prompts/list shows them."""
    index.names = ["define", "absent"]
    found, _ = await finder.prompts(reader, registry.view(None), "q", None)
    assert [name for name, _ in found] == ["define"]


@pytest.mark.parametrize("query", ["", " ", "x" * (MAX_FIND_CHARS + 1)])
async def test_queries_are_checked_before_the_index_is_asked(
    finder, index, registry, reader, query
):
    """invalid_query."""
    for search in (finder.tools, finder.prompts, finder.resources):
        with pytest.raises(Fault) as caught:
            await search(reader, registry.view(None), query, None)
        assert caught.value.code == "invalid_query"
    assert index.requests == []


async def test_searches_are_limited(bus, index, directory, registry, reader, clock):
    """Per caller."""
    limiter = LocalLimiter(1, 2, clock=clock)
    finder = Finder(bus, directory, Cursors(b"k" * 32), limiter, enabled=True)
    for _ in range(2):
        await finder.tools(reader, registry.view(None), "q", None)
    with pytest.raises(Fault) as caught:
        await finder.tools(reader, registry.view(None), "q", None)
    assert caught.value.code == "rate_limited"


@pytest.fixture
async def books(broker, directory, finder):
    books = Books()
    worker = Worker("books")
    worker.add(books)
    await broker.connect(name="books").serve(worker)
    await known(directory, "books")
    return books


async def test_explanation_comes_from_the_index(finder, index, registry, reader):
    """A request of its own: searches without it are not touched."""
    index.explanation = FindExplanation(
        texts=("q",), least_score=0.2, least_probability=0.25, considered=()
    )
    found = await finder.explain_tools(reader, registry.view(None), "q")
    assert found == index.explanation
    assert index.requests[-1].explain


async def test_explanation_names_what_the_caller_may_use_only(finder, index, registry, reader):
    """The index knows definitions that wait for an approval, and tools that no list has."""
    considered = tuple(
        Considered(toolset="dictionary", name=name, score=0.5, probability=0.5, matches=())
        for name in ("secret", "say", "unknown")
    )
    index.explanation = FindExplanation(
        texts=("q",), least_score=0.2, least_probability=0.25, considered=considered
    )
    found = await finder.explain_tools(reader, registry.view(None), "q")
    assert [one.name for one in found.considered] == ["say"]


async def test_resources_of_index_and_toolsets_are_fused(finder, index, books, registry, reader):
    """By rank; what only the index names must be in the registry."""
    index.names = ["dict://all", "dict://absent"]
    found, cursor, coverage = await finder.resources(reader, registry.view(None), "q", None)
    assert [r.uri for r in found] == ["books://1", "dict://all", "books://2"]
    assert cursor is None
    given = {part.source: (part.state, part.results) for part in coverage}
    assert given == {"toolindex": ("answered", 1), "books": ("answered", 2)}


async def test_changed_results_refuse_the_next_page(finder, index, books, registry, reader):
    """Rather than repeat or drop a resource."""
    books.names = tuple(str(n) for n in range(15))
    view = registry.view(None)
    first, cursor, _ = await finder.resources(reader, view, "q", None)
    second, end, _ = await finder.resources(reader, view, "q", cursor)
    assert (len(first), len(second), end) == (10, 5, None)
    books.names = books.names[1:]
    with pytest.raises(Fault, match="have changed"):
        await finder.resources(reader, view, "q", cursor)


async def test_one_failed_source_is_left_out(finder, index, books, registry, reader):
    """And named. All failed, or a fault of the query: the search fails."""
    index.names = ["dict://all"]
    books.fault = Fault(ErrorCode.UNAVAILABLE, "Gone.")
    view = registry.view(None)
    found, _, coverage = await finder.resources(reader, view, "q", None)
    assert [r.uri for r in found] == ["dict://all"]
    assert [(part.source, part.state) for part in coverage if part.code] == [("books", "failed")]
    books.fault = Fault(ErrorCode.INVALID_QUERY, "Bad.")
    with pytest.raises(Fault, match="Bad"):
        await finder.resources(reader, view, "q", None)
    books.fault = index.fault = Fault(ErrorCode.UNAVAILABLE, "Gone.")
    with pytest.raises(Fault, match="Gone"):
        await finder.resources(reader, view, "q", None)


async def test_nothing_found_and_a_failed_source_is_a_failure(
    finder, index, books, registry, reader
):
    """An empty list would say that there is nothing."""
    books.names, view = (), registry.view(None)
    found, cursor, coverage = await finder.resources(reader, view, "q", None)
    assert (found, cursor) == ([], None)
    assert {part.state for part in coverage} == {"empty"}
    books.fault = Fault(ErrorCode.UNAVAILABLE, "Gone.")
    with pytest.raises(Fault, match="Gone"):
        await finder.resources(reader, view, "q", None)
