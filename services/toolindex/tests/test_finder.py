"""Searching: pages, cursors, and what is kept of earlier queries."""

from __future__ import annotations

import asyncio
import gc
import itertools
import unicodedata

import pytest

from searchbus_contracts import Actor, Fault, ResourceDescriptor
from searchbus_contracts.toolindex import FindRequest
from searchbus_toolindex.finder import IndexFinder
from searchbus_vectors import DIMENSIONS
from searchbus_vectors.hash_embedder import hashed_vector

from .conftest import EVERY_ROLE, RecordingEmbedder, entries, find, index_of, tool, vectors_of


def test_cursor_of_an_older_catalogue_is_refused():
    """Rather than repeat or drop a match."""
    index = index_of(tool("a", "send mail"), tool("b", "mail list"))
    generation = find(index, "mail", actor=EVERY_ROLE).generation
    index.replace("office", entries(tool("a", "send mail")), vectors_of)
    with pytest.raises(Fault) as caught:
        find(index, "mail", actor=EVERY_ROLE, offset=1, generation=generation)
    assert caught.value.code == "invalid_argument"


def test_first_page_can_end_where_scores_fall_off():
    """The others are counted, and are on the pages behind it; else a page is as long as asked."""
    index = index_of(*(tool(f"mail{n}", "send mail to a person") for n in range(15)))
    query = "send mail to a person"
    whole = find(index, query, actor=EVERY_ROLE, limit=20)
    assert (whole.first_page, len(whole.found), whole.total) == (10, 15, 15)
    first = find(index, query, actor=EVERY_ROLE, limit=20, first_page=True)
    assert (len(first.found), first.total) == (10, 15)
    rest = find(index, query, actor=EVERY_ROLE, limit=20, offset=10, first_page=True)
    assert first.found + rest.found == whole.found
    behind = find(index, query, actor=EVERY_ROLE, limit=14, offset=1, first_page=True)
    assert behind.found == whole.found[1:]
    short = find(index, query, actor=EVERY_ROLE, limit=1, first_page=True)
    assert short.found == whole.found[:1]


def test_nearest_entries_are_given_in_place_of_none_where_they_are_asked_for():
    """As many as asked, of those that the caller may see; never beside matches."""
    reader = Actor(subject="r")
    index = index_of(
        tool("a", "send mail"), tool("b", "draw charts"), tool("c", "count money"),
        tool("s", "zebra crossing", required_roles=("A",)),
    )  # fmt: skip
    nothing = find(index, "zebra crossing", actor=reader)
    assert (nothing.found, nothing.total, nothing.uncertain) == ((), 0, False)
    nearest = find(index, "zebra crossing", actor=reader, nearest=2)
    assert (len(nearest.found), nearest.total, nearest.uncertain) == (2, 0, True)
    assert "s" not in {f.name for f in find(index, "zebra crossing", actor=reader, nearest=9).found}
    match = find(index, "send mail", actor=reader, nearest=2)
    assert match.found == find(index, "send mail", actor=reader).found
    assert not match.uncertain
    operators = find(index, "$ne", actor=reader, nearest=2)
    assert (operators.found, operators.uncertain) == ((), False)


@pytest.mark.parametrize("name", ["n8n", "k8s", "s3", "e2b", "4k", "x", "42"])
def test_name_without_a_word_is_found_by_those_who_see_it(name):
    """Others learn nothing of it."""
    index = index_of(
        tool(name, "run a workflow", required_roles=("A",)), tool("b", "draw charts"),
        tool("c", "count money"),
    )  # fmt: skip
    assert [f.name for f in find(index, f" {name} ", actor=EVERY_ROLE).found][:1] == [name]
    assert find(index, name, actor=Actor(subject="r"), nearest=2).found == ()


@pytest.mark.parametrize("written", ["NFC", "NFD"])
def test_name_is_found_however_its_accents_are_written(written):
    """Its copy comes before all others; the entry keeps it as it is."""
    name = unicodedata.normalize(written, "Résumé für Žižek")
    others = (f"Résumé {number} für Žižek" for number in range(3))
    names = {"x://small": name.lower(), "x://same": name} | {f"x://{o}": o for o in others}
    index = index_of(
        *(ResourceDescriptor(uri=uri, name=n, toolset="office") for uri, n in names.items())
    )
    for form in ("NFC", "NFD"):
        query = unicodedata.normalize(form, name)
        found = find(index, query, actor=EVERY_ROLE, kind="resource").found
        assert [f.name for f in found[:2]] == ["x://same", "x://small"]


def test_lines_are_searched_by_themselves():
    """They say where a sentence ends."""
    index = index_of(tool("a", "send mail"))
    query = "  Send a mail to Anna \n\n then draw a chart "
    found = find(index, query, actor=EVERY_ROLE, explain=True).explanation
    lines = ("Send a mail to Anna", "then draw a chart")
    assert found.texts[:3] == ("\n".join(lines), *lines)


def test_hidden_change_keeps_a_cursor_valid():
    """A caller does not learn that something it may not see has changed."""
    reader = Actor(subject="r")
    secret = tool("s", "mail secret", required_roles=("A",))
    index = index_of(tool("a", "send mail"), tool("b", "mail list"), secret)
    generation = find(index, "mail", actor=reader).generation
    index.replace("office", entries(tool("a", "send mail"), tool("b", "mail list")), vectors_of)
    assert find(index, "mail", actor=reader, offset=1, generation=generation).found


def test_equal_queries_at_the_same_time_are_embedded_once():
    """Also when the first caller is cancelled."""

    class Slow(RecordingEmbedder):
        async def embed_short(self, texts, *, urgent):
            await asyncio.sleep(0.05)
            return await super().embed_short(texts, urgent=urgent)

    async def run():
        slow = Slow()
        finder = IndexFinder(index_of(tool("send", "send mail"), tool("c", "chart")), slow)
        asks = [
            asyncio.create_task(finder.find(FindRequest(query="mail"), EVERY_ROLE))
            for _ in range(10)
        ]
        await asyncio.sleep(0.01)
        asks[0].cancel()
        replies = await asyncio.gather(*asks, return_exceptions=True)
        assert isinstance(replies[0], asyncio.CancelledError)
        assert {reply.found[0].name for reply in replies[1:]} == {"send"}
        assert slow.embedded == ["mail"]

    asyncio.run(run())


def test_queries_are_embedded_with_the_instruction_of_the_model():
    """Descriptions are embedded without it."""

    class Instructed(RecordingEmbedder):
        query_prefix = "Search: "

    embedder = Instructed()
    asyncio.run(
        IndexFinder(index_of(tool("send", "send mail")), embedder).find(
            FindRequest(query="mail"), Actor()
        )
    )
    assert embedder.embedded == ["Search: mail"]


def test_failed_embedding_is_not_remembered():
    """The next one tries again."""

    class Broken(RecordingEmbedder):
        broken = True

        async def embed_short(self, texts, *, urgent):
            if self.broken:
                raise RuntimeError("out of memory")
            return await super().embed_short(texts, urgent=urgent)

    async def run():
        broken = Broken()
        finder = IndexFinder(index_of(tool("send", "send mail")), broken)
        with pytest.raises(RuntimeError):
            await finder.find(FindRequest(query="mail"), EVERY_ROLE)
        broken.broken = False
        assert (await finder.find(FindRequest(query="mail"), EVERY_ROLE)).total == 1

    asyncio.run(run())


async def test_repeated_query_is_embedded_and_ranked_once():
    """Until the catalogue changes."""
    embedder, index = RecordingEmbedder(), index_of(tool("send", "send mail"), tool("c", "chart"))
    finder = IndexFinder(index, embedder)
    first = await finder.find(FindRequest(query="mail"), EVERY_ROLE)
    assert await finder.find(FindRequest(query="mail"), EVERY_ROLE) == first
    assert embedder.embedded == ["mail"]
    index.replace("office", entries(tool("send", "send mail")), vectors_of)
    assert (await finder.find(FindRequest(query="mail"), EVERY_ROLE)).generation != first.generation
    assert embedder.embedded == ["mail"]


async def test_vectors_of_earlier_queries_are_kept_up_to_their_bytes():
    """Counted with their keys; the least recently used is embedded again."""
    embedder = RecordingEmbedder()
    finder = IndexFinder(
        index_of(tool("send", "send mail")), embedder,
        vectors_kept_bytes=10 * (512 + 4 * DIMENSIONS), rankings_kept_bytes=2000,
    )  # fmt: skip
    queries = [f"word{'x' * number}" for number in range(11)]
    for query in [*queries, *queries[1:]]:
        await finder.find(FindRequest(query=query), EVERY_ROLE)
    assert len(embedder.embedded) == 11
    await finder.find(FindRequest(query=queries[0]), EVERY_ROLE)
    assert embedder.embedded[11:] == queries[:1]


async def test_a_search_leaves_no_task_behind():
    """Only its vector is kept: a finished task also keeps the context of its first caller."""

    def tasks() -> int:
        gc.collect()
        return sum(isinstance(found, asyncio.Task) for found in gc.get_objects())

    finder = IndexFinder(index_of(tool("send", "send mail")), RecordingEmbedder())
    before = tasks()
    for number in range(50):
        await finder.find(FindRequest(query=f"mail{'x' * number}"), EVERY_ROLE)
    assert tasks() == before


async def test_a_kept_ranking_holds_no_more_than_its_matches():
    """An array that is a part of another one keeps all of that."""
    index = index_of(*(tool(f"mail{n}", "send mail to a person") for n in range(15)))
    finder = IndexFinder(index, RecordingEmbedder())
    scope = index.scope(EVERY_ROLE, "tool")
    parsed, _ = await finder.facets("send mail to a person", scope)
    vectors = {text: hashed_vector(text) for text in parsed.texts}
    ranking = finder.ranker.rank(parsed, vectors, scope)
    for kept in (ranking.slots, ranking.probabilities, ranking.cosines):
        assert len(kept) == 15
        assert kept.base is None


async def test_change_of_the_catalogue_during_a_search_is_seen():
    """The ranking is made again: its slots would name other entries."""
    index = index_of(tool("send", "send mail"), tool("c", "chart"))

    class Changing(RecordingEmbedder):
        async def embed_short(self, texts, *, urgent):
            if not self.embedded:
                index.replace("office", entries(tool("mailer", "mail")), vectors_of)
            return await super().embed_short(texts, urgent=urgent)

    reply = await IndexFinder(index, Changing()).find(FindRequest(query="mail"), EVERY_ROLE)
    assert [found.name for found in reply.found] == ["mailer"]


async def test_catalogue_that_changes_all_the_time_does_not_hold_a_search():
    """As while thousands of tools are added, slice by slice."""
    index = index_of(tool("send", "send mail"))

    async def change() -> None:
        for number in itertools.count():
            index.replace("more", entries(tool(f"t{number}", "x", toolset="more")), vectors_of)
            await asyncio.sleep(0)

    changing = asyncio.create_task(change())
    async with asyncio.timeout(60):
        reply = await IndexFinder(index, RecordingEmbedder()).find(
            FindRequest(query="mail"), EVERY_ROLE
        )
    changing.cancel()
    assert [found.name for found in reply.found] == ["send"]


@pytest.mark.parametrize("query", ["", " \n", "x" * 2001])
async def test_query_is_checked(query):
    """1 to 2,000 characters."""
    with pytest.raises(Fault, match="invalid_query"):
        await IndexFinder(index_of(), RecordingEmbedder()).find(FindRequest(query=query), Actor())


@pytest.mark.parametrize("query", ["a", "7", "..", "???!!!", "{}", "$ne", "AND OR NOT", "🙂🙂"])
async def test_query_without_a_word_is_empty_at_once(query):
    """Nothing is embedded; the generation is that of any other page."""
    embedder, index = RecordingEmbedder(), index_of(tool("mail", "send a mail"))
    finder = IndexFinder(index, embedder)
    reply = await finder.find(FindRequest(query=query), EVERY_ROLE)
    assert (reply.found, reply.total, embedder.embedded) == ((), 0, [])
    assert reply.generation == (await finder.find(FindRequest(query="mail"), EVERY_ROLE)).generation
