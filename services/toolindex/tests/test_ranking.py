"""Properties of rankings: pages, access, replicas, kinds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_contracts import Actor, PromptDescriptor, PromptMessage, TextContent
from searchbus_contracts.toolindex import FindReply
from searchbus_toolindex.entries import entry_of
from searchbus_toolindex.index import Index
from searchbus_toolindex.scoring import LEAST, MIN_SCORE
from searchbus_vectors.hash_embedder import HashEmbedder

from .conftest import EVERY_ROLE, entries, find, index_of, rows, tool, vectors_of

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


@settings(max_examples=60)
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


@settings(max_examples=60)
@given(described_tools, queries, actors)
def test_hidden_tools_leave_no_trace(tools, query, actor):
    """All that is answered equals what an index without the hidden tools answers."""
    full = find(index_of(*tools), " ".join(query), actor=actor, limit=100)
    visible = [t for t in tools if actor.holds(t.required_roles)]
    alone = find(index_of(*visible), " ".join(query), actor=actor, limit=100)
    assert rows(full) == rows(alone)
    assert (full.total, full.generation) == (alone.total, alone.generation)


@settings(max_examples=60)
@given(described_tools, st.randoms(use_true_random=False), queries)
def test_replicas_with_another_history_answer_alike(tools, random, query):
    """The order in which workers came, and what was there in between, does not show."""
    first = index_of(*tools)
    second = Index(HashEmbedder.model)
    shuffled = random.sample(tools, len(tools))
    second.replace("gone", entries(tool("gone", "weather mail", toolset="x")), vectors_of)
    for start in range(0, len(shuffled), 3):
        second.replace("office", entries(*shuffled[: start + 3]), vectors_of)
    second.replace("gone", [], vectors_of)
    if not tools:
        second.replace("office", [], vectors_of)
    one = find(first, " ".join(query), actor=EVERY_ROLE, limit=100)
    two = find(second, " ".join(query), actor=EVERY_ROLE, limit=100)
    assert rows(one) == rows(two)
    assert one.generation == two.generation


def test_kinds_and_toolsets_are_apart():
    """A search for prompts gives prompts, one for a toolset that toolset's."""
    message = PromptMessage(role="user", content=TextContent(text="hi"))
    prompt = PromptDescriptor(
        name="mail", toolset="post", description="Write a mail.", messages=(message,)
    )
    index = index_of(tool("send", "send mail"), tool("list", "list mail", toolset="post"))
    index.replace("post", [entry_of(prompt)], vectors_of)
    assert [f.name for f in find(index, "mail", kind="prompt", actor=EVERY_ROLE).found] == ["mail"]
    of_post = find(index, "mail", toolsets=["post"], actor=EVERY_ROLE).found
    assert [f.name for f in of_post] == ["list"]
    assert find(index, "mail", toolsets=["nobody"], actor=EVERY_ROLE).total == 0


def test_examples_and_keywords_are_found():
    """A tool is found by a request it was declared to serve, and by a keyword."""
    index = index_of(
        tool("alpha", "does things", examples=("feed the goldfish",), keywords=("aquarium",)),
        *(tool(f"other_{i}", "does other things") for i in range(20)),
    )
    for query in ("feed the goldfish", "aquarium"):
        assert find(index, query, actor=EVERY_ROLE).found[0].name == "alpha"


def test_score_does_not_depend_on_the_slot():
    """Equal entries have equal scores to the last bit, in an index of any size."""
    tools = [tool(f"t{i}", f"stock price {i % 7}") for i in range(23)]
    one, two = index_of(*tools), index_of(*reversed(tools))
    rows_of = [
        {r[1]: r for r in rows(find(i, "stock price", actor=EVERY_ROLE, limit=50))}
        for i in (one, two)
    ]
    assert rows_of[0] == rows_of[1]


TOOLS = (
    tool("send", "send mail to a person"),
    tool("chart", "draw a chart of prices"),
    tool("secret", "send secret mail", required_roles=("A",)),
)


def explained(query: str, actor: Actor = EVERY_ROLE) -> FindReply:
    return find(index_of(*TOOLS), query, actor=actor, explain=True)


@pytest.mark.parametrize("query", ["send mail", "send", "draw prices", "zebra crossing"])
def test_kept_entries_are_the_matches(query):
    """In their order, with their probabilities; the others say which limit they miss."""
    reply = explained(query)
    considered = reply.explanation.considered
    kept = [entry for entry in considered if entry.left_out is None]
    assert [entry.name for entry in kept] == [found.name for found in reply.found]
    for entry, found in zip(kept, reply.found, strict=True):
        assert entry.probability == pytest.approx(found.score, abs=2e-4)
    for entry in considered:
        assert (entry.left_out == "score") == (entry.score < MIN_SCORE)
        assert len(entry.matches) == len(reply.explanation.texts)
    if considered[0].left_out == "probability":
        assert considered[0].probability < LEAST


def test_entry_far_behind_the_best_is_left_out_by_its_share():
    """Its score alone would keep it."""
    mails = [tool(f"mail{number}", "send mail to a person") for number in range(18)]
    index = index_of(*mails, tool("parcel", "send mail"))
    reply = find(index, "send mail to a person", actor=EVERY_ROLE, explain=True)
    last = reply.explanation.considered[-1]
    assert (last.name, last.left_out, reply.total) == ("parcel", "share", 18)
    assert last.score > MIN_SCORE


def test_literal_match_says_what_it_adds():
    """The name of a tool, as the whole query."""
    first = explained("chart").explanation.considered[0]
    assert (first.name, first.left_out) == ("chart", None)
    assert first.literal > 1


def test_hidden_entries_are_not_considered():
    """An explanation shows what the caller may see, and nothing of the rest."""
    reader = Actor(subject="r")
    explanation = explained("secret mail", reader).explanation
    assert {entry.name for entry in explanation.considered} == {"send", "chart"}


def test_explanation_is_made_on_request():
    """A query without a word has none."""
    assert find(index_of(*TOOLS), "send mail").explanation is None
    assert explained("!?").explanation is None
