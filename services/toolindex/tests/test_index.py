"""Properties of the index: pages, access, replicas, changes."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_contracts import Actor, Catalog, Fault, PromptDescriptor, PromptMessage, TextContent
from searchbus_toolindex.entries import entries_of
from searchbus_toolindex.finder import Finder
from searchbus_toolindex.index import Index

from .conftest import EVERYBODY, WordVectors, entries, index_of, tool, vectors_of

WORDS = ["weather", "forecast", "mail", "send", "chart", "file", "list", "price", "stock", "city"]
ROLES = [(), ("A",), ("B",), ("A", "B")]

descriptions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
described_tools = st.lists(
    st.tuples(descriptions, st.sampled_from(ROLES)), min_size=0, max_size=40
).map(
    lambda items: [
        tool(f"tool_{i}", text, required_roles=roles) for i, (text, roles) in enumerate(items)
    ]
)
queries = st.lists(st.sampled_from([*WORDS, "wether", "tool_3", "wetter"]), min_size=1, max_size=4)
actors = st.sampled_from(
    [Actor(subject="n"), Actor(subject="a", roles=("A",)), Actor(subject="ab", roles=("A", "B"))]
)


def find(index: Index, query: str, **options):
    return asyncio.run(Finder(index, WordVectors()).find(query, **options))


def rows(reply):
    return [(f.toolset, f.name, f.score, f.cosine, f.matched) for f in reply.found]


@settings(max_examples=60, deadline=None)
@given(described_tools, queries, actors, st.integers(1, 7))
def test_walking_the_pages_gives_each_match_once_and_in_order(tools, query, actor, size):
    """Whatever the page size."""
    index = index_of(*tools)
    whole = find(index, " ".join(query), actor=actor, limit=100)
    walked, generation = [], None
    while True:
        page = find(
            index, " ".join(query), actor=actor, limit=size, offset=len(walked),
            generation=generation,
        )  # fmt: skip
        generation = page.generation
        if not page.found:
            break
        walked += rows(page)
    assert walked == rows(whole)
    assert len({name for _, name, *_ in walked}) == len(walked) == whole.total


@settings(max_examples=150, deadline=None)
@given(described_tools, queries, actors)
def test_hidden_tools_leave_no_trace(tools, query, actor):
    """All that is answered equals what an index without the hidden tools answers."""
    full = find(index_of(*tools), " ".join(query), actor=actor, limit=100)
    visible = [t for t in tools if actor.holds(t.required_roles)]
    alone = find(index_of(*visible), " ".join(query), actor=actor, limit=100)
    assert rows(full) == rows(alone)
    assert (full.total, full.generation) == (alone.total, alone.generation)


@settings(max_examples=60, deadline=None)
@given(described_tools, st.randoms(use_true_random=False), queries)
def test_replicas_with_another_history_answer_alike(tools, random, query):
    """The order in which workers came, and what was there in between, does not show."""
    first = index_of(*tools)
    second = Index()
    shuffled = random.sample(tools, len(tools))
    second.replace("gone", entries(tool("gone", "weather mail", toolset="x")), vectors_of)
    for start in range(0, len(shuffled), 3):
        second.replace("office", entries(*shuffled[: start + 3]), vectors_of)
    second.replace("gone", [], vectors_of)
    if not tools:
        second.replace("office", [], vectors_of)
    one = find(first, " ".join(query), actor=EVERYBODY, limit=100)
    two = find(second, " ".join(query), actor=EVERYBODY, limit=100)
    assert rows(one) == rows(two)
    assert one.generation == two.generation


def test_a_change_replaces_only_what_changed():
    """Vectors of unchanged entries are not asked for again."""
    index = index_of(tool("a", "send mail"), tool("b", "weather"))
    asked = []

    def vectors(entry):
        asked.append(entry.name)
        return vectors_of(entry)

    index.replace("office", entries(tool("a", "send mail"), tool("b", "stock price")), vectors)
    assert asked == ["b"]
    assert [f.name for f in find(index, "stock price", actor=EVERYBODY).found] == ["b"]
    assert "weather" not in index.vocabulary(index.visible(EVERYBODY, "tool"))
    assert len(index) == 2


def test_cursor_of_an_older_catalogue_is_refused():
    """Rather than repeat or drop a match."""
    index = index_of(tool("a", "send mail"), tool("b", "mail list"))
    generation = find(index, "mail", actor=EVERYBODY).generation
    index.replace("office", entries(tool("a", "send mail")), vectors_of)
    with pytest.raises(Fault) as caught:
        find(index, "mail", actor=EVERYBODY, offset=1, generation=generation)
    assert caught.value.code == "invalid_argument"


def test_hidden_change_keeps_a_cursor_valid():
    """A caller does not learn that something it may not see has changed."""
    reader = Actor(subject="r")
    secret = tool("s", "mail secret", required_roles=("A",))
    index = index_of(tool("a", "send mail"), tool("b", "mail list"), secret)
    generation = find(index, "mail", actor=reader).generation
    index.replace("office", entries(tool("a", "send mail"), tool("b", "mail list")), vectors_of)
    assert find(index, "mail", actor=reader, offset=1, generation=generation).found


def test_kinds_and_toolsets_are_apart():
    """A search for prompts gives prompts, one for a toolset that toolset's."""
    message = PromptMessage(role="user", content=TextContent(text="hi"))
    prompt = PromptDescriptor(
        name="mail", toolset="post", description="Write a mail.", messages=(message,)
    )
    index = index_of(tool("send", "send mail"), tool("list", "list mail", toolset="post"))
    index.replace("post", list(entries_of(Catalog(service="post", prompts=(prompt,)))), vectors_of)
    assert [f.name for f in find(index, "mail", kind="prompt", actor=EVERYBODY).found] == ["mail"]
    of_post = find(index, "mail", toolsets=["post"], actor=EVERYBODY).found
    assert [f.name for f in of_post] == ["list"]
    assert find(index, "mail", toolsets=["nobody"], actor=EVERYBODY).total == 0


def test_examples_and_keywords_are_found():
    """A tool is found by a request it was declared to serve, and by a keyword."""
    index = index_of(
        tool("alpha", "does things", examples=("feed the goldfish",), keywords=("aquarium",)),
        *(tool(f"other_{i}", "does other things") for i in range(20)),
    )
    for query in ("feed the goldfish", "aquarium"):
        assert find(index, query, actor=EVERYBODY).found[0].name == "alpha"


def test_equal_queries_at_the_same_time_are_embedded_once():
    """Also when whoever asked first goes away."""

    class Slow(WordVectors):
        async def embed_short(self, texts, *, urgent):
            await asyncio.sleep(0.05)
            return await super().embed_short(texts, urgent=urgent)

    async def run():
        slow = Slow()
        finder = Finder(index_of(tool("send", "send mail"), tool("c", "chart")), slow)
        asks = [asyncio.create_task(finder.find("mail", actor=EVERYBODY)) for _ in range(10)]
        await asyncio.sleep(0.01)
        asks[0].cancel()
        replies = await asyncio.gather(*asks, return_exceptions=True)
        assert isinstance(replies[0], asyncio.CancelledError)
        assert {reply.found[0].name for reply in replies[1:]} == {"send"}
        assert slow.asked == ["mail"]

    asyncio.run(run())


def test_failed_embedding_is_not_remembered():
    """The next one tries again."""

    class Broken(WordVectors):
        broken = True

        async def embed_short(self, texts, *, urgent):
            if self.broken:
                raise RuntimeError("out of memory")
            return await super().embed_short(texts, urgent=urgent)

    async def run():
        broken = Broken()
        finder = Finder(index_of(tool("send", "send mail")), broken)
        with pytest.raises(RuntimeError):
            await finder.find("mail", actor=EVERYBODY)
        broken.broken = False
        assert (await finder.find("mail", actor=EVERYBODY)).total == 1

    asyncio.run(run())


def test_vector_file_survives_a_torn_end_and_foreign_bytes(tmp_path):
    """What is whole is read; the rest is left out."""
    from searchbus_toolindex.vector_file import VectorFile, text_key

    path = tmp_path / "toolindex" / "vectors.bin"
    vectors = {text_key("m", str(i)): WordVectors.vector(f"word{i}") for i in range(5)}
    VectorFile(path).add(vectors)
    with path.open("ab") as file:
        file.write(b"\x01" * 1700)
    again = VectorFile(path)
    assert len(again) == 5
    for key, vector in vectors.items():
        np.testing.assert_array_equal(again.get(key), vector)
    again.add({text_key("m", "6"): WordVectors.vector("six")})
    assert len(VectorFile(path)) == 6
