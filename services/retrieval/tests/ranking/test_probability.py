"""How probable it is that a hit answers."""

from __future__ import annotations

from datetime import date

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from searchbus_contracts.retrieval import SearchHit
from searchbus_retrieval.documents.records import point_id
from searchbus_retrieval.question.periods import Period
from searchbus_retrieval.question.profiles import Profile
from searchbus_retrieval.ranking import backgrounds
from searchbus_retrieval.ranking.backgrounds import UNRELATED, Backgrounds, NoiseBackground
from searchbus_retrieval.ranking.probability import Dated, Probability
from searchbus_testing import until
from searchbus_vectors import embedder as embedding
from searchbus_vectors.hash_embedder import HashEmbedder

from ..conftest import document


class Asked(HashEmbedder):
    """Notes what it embeds."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def _embed_query(self, text):
        self.queries.append(text)
        return await super()._embed_query(text)


class Clock:
    """Seconds that pass when a test says so."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def fill(library, first: int, count: int) -> None:
    for number in range(first, first + count):
        await library.store(
            "c", document(str(number), f"Whales sing song number {number}. Loudly.")
        )


async def test_background_is_measured_once_and_survives_a_restart(library, store):
    """Another process reads it and asks nothing."""
    await fill(library, 0, 5)
    asked = Asked()
    first = await Backgrounds(store).of("c", asked)
    assert first.passages == 5
    assert set(UNRELATED) < set(asked.queries)
    assert "Whales sing song number" in " ".join(asked.queries)
    again = Asked()
    assert await Backgrounds(store).of("c", again) == first
    assert again.queries == []


async def test_background_is_measured_again_when_the_collection_has_grown(library, store):
    """By half; searches go on with the old one, and the questions are not embedded again."""
    await fill(library, 0, 4)
    clock, asked = Clock(), Asked()
    backgrounds = Backgrounds(store, clock=clock)
    assert (await backgrounds.of("c", asked)).passages == 4
    await fill(library, 4, 4)
    assert (await backgrounds.of("c", asked)).passages == 4
    clock.seconds += 60
    assert (await backgrounds.of("c", asked)).passages == 4

    async def is_measured_again() -> bool:
        return (await backgrounds.of("c", asked)).passages == 8

    await until(is_measured_again)
    assert sum(query == UNRELATED[0] for query in asked.queries) == 1


async def test_background_is_measured_behind_an_ingest(library, store, monkeypatch):
    """Before the first search, not while documents arrive, and in a trace of its own."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    monkeypatch.setattr(backgrounds, "_tracer", tracer)
    monkeypatch.setattr(embedding, "_tracer", tracer)
    kept = point_id("background", "c")
    with tracer.start_as_current_span("ingest"):
        await fill(library, 0, 3)
        assert await store.get("c", [kept]) == []

        async def is_kept() -> bool:
            return bool(await store.get("c", [kept]))

        await until(is_kept)
    with tracer.start_as_current_span("search"):
        await library.search("c", "whales")
    spans = exporter.get_finished_spans()
    traces = {span.name: span.context.trace_id for span in spans}
    own = [span for span in spans if span.context.trace_id == traces["measure background"]]
    assert len(own) > len(UNRELATED)
    queries = [s for s in spans if s.name == "embed query" and s not in own]
    assert {span.context.trace_id for span in queries} == {traces["search"]}


async def test_background_is_no_document(library, store):
    """Neither for a search nor for a list, and a deleted collection has none."""
    await fill(library, 0, 3)
    await library.search("c", "whales")
    documents, _ = await library.list_documents("c", limit=100)
    assert len(documents) == 3
    (info,) = await library.list_collections()
    assert (info.documents, info.chunks) == (3, 3)
    await library.delete("c", ())
    await fill(library, 0, 1)
    assert (await library._backgrounds.of("c", HashEmbedder())).passages == 1


@pytest.mark.parametrize("method", ["count", "match", "upsert", "get"])
async def test_search_answers_where_no_background_can_be_measured(
    library, store, method, monkeypatch
):
    """By that of most collections; a full disk only forgets it at the end of the process."""
    await fill(library, 0, 3)

    async def fails(*args, **options):
        raise OSError("no space")

    backgrounds = Backgrounds(store)
    monkeypatch.setattr(store, method, fails)
    found = await backgrounds.of("c", HashEmbedder())
    assert (found == NoiseBackground()) == (method != "upsert")


def test_spread_of_another_size_of_collection_does_not_fit():
    """Nor what an earlier release kept."""
    known = NoiseBackground(passages=100)
    assert [known.fits(n) for n in (66, 67, 150, 151)] == [False, True, True, False]
    assert not NoiseBackground(passages=100, version=0).fits(100)
    assert known.distance(known.typical + 2 * known.spread) == pytest.approx(2.0)


EMBEDDER = HashEmbedder()
BACKGROUND = NoiseBackground(typical=0.5, spread=0.05, passages=10_000)
MARCH = Period(date(2022, 3, 1), date(2022, 4, 1))


def hit(text: str = "", *, cosine: float = 0.6, literal: bool = False, day: str = "") -> SearchHit:
    metadata = {"date": day} if day else {}
    return SearchHit(
        collection="c", document_id="d", chunk_id="d", title="", text=text, score=1.0,
        cosine=cosine, literal=literal, metadata=metadata,
    )  # fmt: skip


def of(
    query: str, found: SearchHit, *, lacks: str = "", dated: Dated | None = None, **more
) -> float:
    """Every word but those of `lacks` is in the collection."""
    best = dict.fromkeys(EMBEDDER.words(query).indices, 10.0)
    best |= dict.fromkeys(EMBEDDER.words(lacks).indices, 0.0)
    return Probability(query, EMBEDDER, best, BACKGROUND, dated, **more).of(found)


def test_it_is_a_probability_at_the_limits_of_its_input():
    """Also for a query without words, and one of a thousand characters."""
    for query in ("", "?", "the of", "x " * 500, "W" * 1000):
        for cosine in (0.0, 1.0):
            assert 0 <= of(query, hit(query, cosine=cosine)) <= 1


def test_nearer_passages_and_more_words_are_more_probable():
    """Near and with every word it is sure, far and without any it is not."""
    query = "whales sing songs"
    rising = [
        of(query, hit("trains", cosine=0.5)),
        of(query, hit("trains", cosine=0.6)),
        of(query, hit("a whale", cosine=0.6)),
        of(query, hit("a whale sings a song", cosine=0.6)),
        of(query, hit("a whale sings a song", cosine=0.75)),
    ]
    assert rising == sorted(set(rising))
    assert rising[0] < 0.02
    assert rising[-1] > 0.95


def test_words_that_the_collection_lacks_lower_it():
    """A name more than another word, and a word that only asks not at all."""
    query, passage = (
        "What did Kowalczyk say about inflation and zinc?",
        hit("inflation", cosine=0.65),
    )
    known = of(query, passage)
    assert of(query, passage, lacks="Kowalczyk") < of(query, passage, lacks="zinc") < known
    assert of(query, passage, lacks="say") == known


def test_word_for_which_the_documents_have_another_counts_against_none():
    """That the collection lacks it says nothing."""
    query, passage = "QT of zinc", hit("zinc", cosine=0.65)
    assert of(query, passage, lacks="QT", replaced=["qt"]) == of("zinc", passage)
    assert of(query, passage, lacks="QT") < of("zinc", passage)


def test_question_about_others_is_answered_by_passages_that_name_them():
    """In any spelling."""
    others = Profile(others=(("ECB", "European Central Bank"), ("IMF",))).names_of_others
    query, cosine = "What did the ECB decide?", 0.8
    passage = hit("It was decided.", cosine=cosine)
    named = hit("The European Central Bank decided.", cosine=cosine)
    assert of(query, passage, others=others) < 0.3 < of(query, named, others=others)
    assert of("What was decided?", passage, others=others) == of("What was decided?", passage)


def test_what_the_facts_deny_has_no_probable_hit():
    """However near it is; the question word for word is a document's own."""
    passage = hit("a whale sings a song", cosine=0.9)
    assert of("whales sing songs", passage, denied=True) < 0.3 < of("whales sing songs", passage)


def test_a_fact_of_the_date_that_the_question_asks_for_is_evidence():
    """A vote has names, of which the model knows little; of another date it is another vote."""
    dated = Dated("date", [MARCH], outside=False)
    for day, is_evidence in (("2022-03-16", True), ("2021-03-16", False)):
        passage = hit("Voting against: Ms. Poe.", cosine=0.5, day=day)
        plain = of("who objected", passage, dated=dated, stating={"e"})
        assert (of("who objected", passage, dated=dated, stating={"d"}) > plain) == is_evidence


async def test_a_month_without_a_meeting_has_no_probable_hit(fomc_library):
    """The meetings beside it are not the one that the question names; one may begin in it."""

    async def best(question: str) -> float:
        return max(hit.relevance for hit in await fomc_library.search("fomc", question, limit=4))

    assert await best("What was decided at the April 2022 meeting?") <= 0.1
    for question in ("What was decided at the March 2022 meeting?", "Inflation in April 2022",
                     "What was decided at the January 2023 meeting?"):  # fmt: skip
        assert await best(question) > 0.1


async def test_a_field_that_no_profile_names_denies_no_date(library):
    """It says when a document was changed, not of what it tells; nor is each number a year."""
    text = "Jane Roe led the company in 1998. The service listens on port 2049, see RFC 2046."
    for name, more in (("old", {}), ("new", {"updated": "2024-05-01"})):
        await library.store(name, document("a", text, collection=name, metadata=more))
    for question in (
        "Who led the company in 1998?",
        "which service listens on port 2049",
        "RFC 2046",
    ):
        (undated,), (dated,) = [await library.search(name, question) for name in ("old", "new")]
        assert dated.relevance == pytest.approx(undated.relevance, abs=0.01)
    (hit,) = await library.search("new", "What is new in May 2024?")
    (other,) = await library.search("old", "What is new in May 2024?")
    assert hit.relevance > other.relevance  # that it has the date speaks for it


def test_date_at_which_no_document_is_lowers_it():
    """Less where the passage names the year."""
    query = "pears in March 1985"
    outside = Dated("date", [Period(date(1985, 3, 1), date(1985, 4, 1))], outside=True)
    passage = hit("pears were dear", cosine=0.8)
    assert of(query, passage, dated=outside) < 0.3 < of("pears", passage)
    named = hit("pears were dear in 1985", cosine=0.8)
    assert of(query, passage, dated=outside) < of(query, named, dated=outside) < of("pears", named)


def test_passage_of_the_date_is_more_probable():
    """More by a month than by a year, which many documents are of."""
    year = Period(date(2022, 1, 1), date(2023, 1, 1))
    found = [
        of("pears", hit("fruit", day=day), dated=Dated("date", [period], outside=False))
        for day, period in [("2023-05-01", year), ("2022-03-16", year), ("2022-03-16", MARCH)]
    ]
    assert found == sorted(set(found))
    undated = Dated("date", [MARCH], outside=False)
    assert of("pears", hit("fruit", day="soon"), dated=undated) == found[0]


def test_full_name_in_the_passage_is_evidence():
    """With initials between its words; a name that has only one of them is another's."""
    query = "Why did Esther George dissent?"
    there = of(query, hit("Voting against: Esther L. George"))
    assert there > of(query, hit("Voting against: Esther and then Boy George")) + 0.1


def test_passage_of_megabytes_is_read_by_its_beginning():
    """As far as ten usual passages."""
    far = "and so on " * 1_000 + "whales sing"
    assert of("whales sing", hit(far)) == of("whales sing", hit("and so on"))


def test_small_collection_answers_in_other_words():
    """Its few words are not expected to be those of the question."""
    found = []
    for passages in (5, 1_000, 100_000):
        background = NoiseBackground(typical=0.5, spread=0.05, passages=passages)
        asked = Probability("how many holidays do I get", EMBEDDER, {}, background, None)
        found.append(asked.of(hit("28 days of paid leave a year", cosine=0.62)))
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.3 > found[-1]


class Multilingual(HashEmbedder):
    """Says that it knows many languages."""

    sure_cosine = 0.62


def test_question_in_another_language_is_compared_by_meaning_alone():
    """Where the model knows it; the collection has no word of the question."""
    for embedder, passes in ((EMBEDDER, False), (Multilingual(), True)):
        asked = Probability("Warum singen Wale im Winter?", embedder, {}, BACKGROUND, None)
        found = [asked.of(hit("Whales sing.", cosine=cosine)) for cosine in (0.55, 0.63)]
        assert [relevance >= 0.3 for relevance in found] == [False, passes]


@pytest.mark.parametrize("option", ["literal", "ordered"])
def test_question_word_for_word_and_question_for_the_latest_are_evidence(option):
    """A document that is asked for by its type and place in time has none of the words."""
    if option == "literal":
        assert of("whales", hit("whales", cosine=0.1, literal=True)) >= 0.9
    else:
        assert of("whales", hit(), ordered=True) > of("whales", hit())
