"""Hits within a budget of tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, Fault, encode
from searchbus_contracts.retrieval import SearchHit, SearchReply, SearchRequest
from searchbus_passages import count
from searchbus_retrieval.fitting import MAX_EMBEDDED, Highlights, fit, rest_of
from searchbus_retrieval.service import build_worker
from searchbus_vectors import load_embedder

SENTENCES = ("Rates rose in \u201cMarch\u201d.", "Pears were ripe!", "The vote was 9\u20131.\r\n", "| 5\u20111/4 | x |\n",
             "\u9be8\u306e\u6b4c\u3002", "\U0001f350\U0001f350.", "e\u0301t\u00e9 ", "Inflation remained elevated over the year.")  # fmt: skip
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=40).map(" ".join)


def hit(n: int, text: str) -> SearchHit:
    return SearchHit(
        collection="c", document_id=f"d{n}", chunk_id=f"{n}", title=f"Title {n}", text=text, score=1 - n / 100,
        cosine=0.5, start=1000 * n, end=1000 * n + len(text), content_hash="ab" * 32,
    )  # fmt: skip


def render(fitted) -> SearchReply:
    return SearchReply(hits=fitted.hits, truncated=fitted.truncated, next_cursor=fitted.cursor)


async def fitted(hits, most, embedder, query="pears", cursor=None):
    async def highlights(collection):
        return Highlights(embedder)

    return await fit(hits, most, render, query=query, highlights=highlights, cursor=cursor)


async def test_hits_that_fit_are_unchanged(embedder):
    """Nothing is cut, nothing is said."""
    hits = [hit(n, "Rates rose.") for n in range(3)]
    found = await fitted(hits, 1000, embedder)
    assert (found.hits, found.cursor, found.truncated) == (tuple(hits), None, False)


@settings(max_examples=40)
@given(texts=st.lists(TEXTS, min_size=1, max_size=12), most=st.integers(250, 4000))
async def test_budget_holds_for_the_whole_answer(texts, most):
    """Each text is a part of its chunk, at the place that it names."""
    embedder = await load_embedder("hash")
    hits = [hit(n, text) for n, text in enumerate(texts)]
    found = await fitted(hits, most, embedder)
    assert count(encode(render(found)).decode()) <= most
    assert 1 <= len(found.hits) <= len(hits)
    assert (found.cursor is None) == (len(found.hits) == len(hits))
    for shown, original in zip(found.hits, hits, strict=False):
        first = shown.start - original.start
        assert original.text[first : first + len(shown.text)] == shown.text
        assert shown.end - shown.start == len(shown.text)
        assert shown.truncated is (shown.text != original.text)


async def test_sentences_that_answer_come_first(embedder):
    """They stand in the middle of a long passage."""
    filler = "The staff presented its usual review of the region. " * 12
    text = f"{filler}The harvest of pears was poor in most districts. {filler}"
    found = await fitted([hit(0, text), hit(1, text)], 420, embedder, "harvest of pears")
    assert len(found.hits) == 2
    for shown in found.hits:
        assert "harvest of pears was poor" in shown.text
        assert shown.text.endswith(".")


async def test_last_hits_are_left_out_with_a_cursor_that_leads_to_them(embedder):
    """Page by page, all of them come once."""
    hits = [hit(n, f"Passage {n} says that rates rose. " * 8) for n in range(10)]
    seen, cursor = [], None
    while True:
        found = await fitted(hits, 600, embedder, cursor=cursor)
        seen += [shown.document_id for shown in found.hits]
        cursor = found.cursor
        if cursor is None:
            break
    assert seen == [f"d{n}" for n in range(10)]


async def test_budget_that_is_too_small_is_refused(embedder):
    """With what the first hit takes."""
    with pytest.raises(Fault, match=r"max_tokens is 100, but the answer takes \d+"):
        await fitted([hit(0, "Rates rose. " * 100)], 100, embedder)


async def test_cursor_of_another_search_is_refused(embedder):
    """It belongs to a question, and to the hits that were given for it."""
    hits = [hit(n, f"Passage {n} says that rates rose. " * 8) for n in range(10)]
    cursor = (await fitted(hits, 600, embedder)).cursor
    rest = rest_of(hits, cursor, "pears")
    assert 0 < len(rest) < 10
    assert rest == hits[-len(rest) :]
    assert rest_of([*hits, hit(10, "New.")], cursor, "pears") == [*rest, hit(10, "New.")]
    assert rest_of(hits[: -len(rest)], cursor, "pears") == []  # those that were left are deleted
    for others, query in ((hits, "plums"), (hits[1:], "pears"), (hits[::-1], "pears"), ([], "")):
        with pytest.raises(Fault, match="cursor: unknown"):
            rest_of(others, cursor, query)


@pytest.mark.parametrize("cursor", ["0", "5", "x", "", "-1", "1.0", "\u0661", "100"])
def test_unknown_cursor_is_refused(cursor):
    """No page gave it."""
    with pytest.raises(Fault, match="cursor: unknown"):
        rest_of([hit(n, "Pears.") for n in range(9)], cursor, "pears")


async def test_search_of_collections_keeps_a_budget(fomc_library):
    """As another service or the command line asks for it."""
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(fomc_library))
    bus = broker.connect()

    async def search(**more) -> SearchReply:
        return await bus.request(
            bus.subjects.endpoint("retrieval", "search"),
            SearchRequest(query="target range for the federal funds rate", limit=4, **more),
            SearchReply, service="retrieval", timeout_s=30, actor=Actor(subject="a"),
        )  # fmt: skip

    whole = await search()
    assert (whole.truncated, whole.next_cursor, len(whole.hits)) == (False, None, 4)
    page = await search(max_tokens=500)
    assert page.truncated
    assert count(encode(page).decode()) <= 500
    rest = await search(max_tokens=2000, cursor=page.next_cursor)
    shown = [*page.hits, *rest.hits]
    assert [h.chunk_id for h in shown] == [h.chunk_id for h in whole.hits]
    unbound = await search(cursor=page.next_cursor)
    assert [h.chunk_id for h in unbound.hits] == [h.chunk_id for h in rest.hits]
    assert all(h.content_hash for h in shown)


REASONS = [
    "The meeting was held at ten.",
    "Participants noted that the harvest of pears was poor.",
    "They thanked the staff.",
    "Inflation remained elevated.",
]


@pytest.fixture
def highlights(embedder):
    return Highlights(embedder)


async def test_sentence_with_the_words_of_the_question_is_best(highlights):
    """In other forms, too; the scores lie between 0 and 1."""
    scores = await highlights.score("How were the harvests of pears?", REASONS)
    assert scores.index(max(scores)) == 1
    assert all(0 <= score <= 1 for score in scores)


async def test_many_sentences_are_compared_by_their_words_only(highlights, embedder, monkeypatch):
    """So that a large answer costs little more."""
    monkeypatch.setattr(embedder, "embed_short", None)
    many = ["They thanked the staff."] * (MAX_EMBEDDED + 20) + [REASONS[1]]
    scores = await highlights.score("harvest of pears", many)
    assert len(scores) == len(many)
    assert max(scores) == scores[-1]


@pytest.mark.parametrize("sentences", [[], ["One."], ["Same.", "Same."]])
async def test_few_or_equal_sentences_have_scores(highlights, sentences):
    """Nothing to compare is no failure."""
    assert len(await highlights.score("pears", sentences)) == len(sentences)
