"""The tools, the prompts and the corpus of toolset fomc."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest
from msgspec import Raw, to_builtins

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, Fault, ToolCall, ToolReply, encode
from searchbus_contracts.ingest import document_id
from searchbus_contracts.retrieval import EXPLANATION
from searchbus_passages import DEFAULT_TOKENS, count
from searchbus_retrieval.access import Access
from searchbus_retrieval.service import build_worker
from searchbus_retrieval.tools import FomcTools, SearchFomc, search_corpus

from .conftest import document

FIELDS = [
    "chunk_id", "document_name", "document_date", "document_id", "section_header", "chunk_text",
    "relevance_score", "cosine_similarity", "relevance_probability", "start", "end", "content_hash",
]  # fmt: skip


@pytest.fixture
async def call(fomc_library):
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(fomc_library, access=Access({"fomc": ["FED"]})))
    bus = broker.connect()

    async def call(tool: str, *, roles: tuple[str, ...] = ("FED",), **arguments):
        reply = await bus.request(
            bus.subjects.tool("fomc", tool), ToolCall(tool=tool, arguments=Raw(encode(arguments))), ToolReply,
            service="retrieval", timeout_s=10, actor=Actor(subject="a", roles=roles),
        )  # fmt: skip
        return reply.structured

    return call


async def test_results_have_the_fields_of_the_contract(call):
    """In the contract's order, with scores from 0 to 1."""
    reply = await call("search_fomc", query="raise the target range in March 2022", top_k=2)
    assert [list(result) for result in reply["results"]] == [FIELDS, FIELDS]
    first = reply["results"][0]
    assert first["document_date"] == "2022-03-16"
    assert 0 < first["relevance_score"] <= 1


@pytest.mark.parametrize(
    "query", ["raise the target range in March 2022", "inflation", "the minutes of 2022", "pears"]
)
async def test_results_are_in_the_order_of_their_score(call, query):
    """The cosine, one part of it, is given beside it."""
    results = (await call("search_fomc", query=query, top_k=10))["results"]
    scores = [result["relevance_score"] for result in results]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] < scores[0] <= 1
    assert all(0 < result["cosine_similarity"] <= 1 for result in results)


async def test_no_score_is_below_the_least_of_the_contract(call, fomc_library):
    """A short passage loses more than it has: clients that check the schema would lose all."""
    closing = document("closing", "Adjourned.", collection="fomc", metadata={"date": "2019-01-01"})
    await fomc_library.store("fomc", closing)
    query = "raise the target range in March 2022"
    hits = await fomc_library.search("fomc", query, limit=10)
    assert hits[-1].score < 0
    results = (await call("search_fomc", query=query, top_k=10))["results"]
    assert (results[-1]["chunk_text"], results[-1]["relevance_score"]) == ("Adjourned.", 0)


async def test_explained_results_have_one_field_more(fomc_library):
    """What was left out stands in `_meta`, beside the array that the specification shows."""
    tools = FomcTools(fomc_library)
    caller = SimpleNamespace(actor=Actor(subject="a"))
    found = await tools.search_fomc(caller, SearchFomc("inflation", top_k=1, explain=True))
    (passage,) = to_builtins(found.value)
    assert list(passage) == [*FIELDS, "explanation"]
    assert passage["explanation"]["rank"] == 1
    about = found.meta[EXPLANATION]
    assert {entry["reason"] for entry in about["left_out"]} == {"limit"}
    assert about["reading"]["words"] == "inflation"
    assert (await tools.search_fomc(caller, SearchFomc("inflation"))).meta is None


async def test_document_of_a_result_is_returned_whole(call):
    """The passage is in its text."""
    reply = await call("search_fomc", query="harvest of pears", top_k=1)
    (passage,) = reply["results"]
    document = await call("get_document", document_id=passage["document_id"])
    text = document["full_text"]
    assert text[passage["start"] : passage["end"]] == passage["chunk_text"]
    assert passage["content_hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert document | {"full_text": ""} == {
        "id": document_id("fomc", "minutes-2022-03-16"),
        "title": "FOMC Minutes, 2022-03-16",
        "date": "2022-03-16",
        "document_type": "minutes",
        "source_url": "https://www.federalreserve.gov/minutes/2022-03-16",
        "full_text": "",
        "chunk_count": 1,
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("search_fomc", {"query": " "}, "invalid_query"),
        ("search_fomc", {"query": "x" * 1001}, "invalid_query"),
        ("search_fomc", {"query": "a", "top_k": 51}, "invalid_argument"),
        ("search_fomc", {"query": "a", "where": {"x": 1}}, "invalid_argument"),
        ("search_fomc", {"query": "a", "other": 1}, "invalid_argument"),
        ("search_fomc", {"query": "a", "max_tokens": 99}, "invalid_argument"),
        ("search_fomc", {"query": "inflation", "max_tokens": 100}, "invalid_argument"),
        ("search_fomc", {"query": "a", "cursor": "9"}, "invalid_argument"),
        ("get_document", {"document_id": " "}, "not_found"),
        ("get_document", {"document_id": "none"}, "not_found"),
        ("get_document", {"document_id": "x" * 513}, "not_found"),
        ("get_document", {"document_id": "ü" * 5000}, "not_found"),
        ("search_fomc", {"query": "a", "roles": ()}, "not_found"),
        ("get_document", {"document_id": "a", "roles": ()}, "not_found"),
    ],
)
async def test_failures_are_typed(call, tool, arguments, code):
    """A caller without the role cannot tell a closed collection from one that does not exist."""
    with pytest.raises(Fault) as caught:
        await call(tool, **arguments)
    assert caught.value.code == code


async def test_empty_part_names_the_argument(call):
    """As the caller knows it."""
    with pytest.raises(Fault, match="invalid_argument: document_id: the part 5-3 is empty"):
        await call("get_document", document_id="x#5-3")


async def test_search_keeps_a_budget_and_leads_on(call):
    """Every page is an array of the same objects; only the last one of a page has a cursor."""
    arguments = {"query": "target range for the federal funds rate", "top_k": 4}
    whole = (await call("search_fomc", **arguments))["results"]
    assert not any("truncated" in r or "cursor" in r for r in whole)
    seen, cursor = [], {}
    while True:
        page = (await call("search_fomc", max_tokens=400, **arguments, **cursor))["results"]
        assert count(encode(page).decode()) <= 400
        seen += [result["chunk_id"] for result in page]
        assert not any("cursor" in result for result in page[:-1])
        if "cursor" not in page[-1]:
            break
        cursor = {"cursor": page[-1]["cursor"]}
    assert seen == [result["chunk_id"] for result in whole]


async def test_cursor_belongs_to_one_search(call):
    """With another question it would leave out the best rows."""
    arguments = {"query": "target range for the federal funds rate", "top_k": 4}
    page = (await call("search_fomc", max_tokens=400, **arguments))["results"]
    given = {"cursor": page[-1]["cursor"]}
    assert (await call("search_fomc", **arguments, **given))["results"]
    for other in ({"query": "harvest of pears", **given}, {**arguments, "cursor": "1"}):
        with pytest.raises(Fault, match="cursor: unknown"):
            await call("search_fomc", **other)


async def test_cut_passages_are_parts_of_their_documents(call):
    """With the place of what is shown."""
    page = (await call("search_fomc", query="harvest of pears", top_k=1, max_tokens=380))["results"]
    (passage,) = page
    assert passage["truncated"] is True
    assert "harvest of pears" in " ".join(passage["chunk_text"].split())
    document = await call("get_document", document_id=passage["document_id"])
    text = document["full_text"]
    assert text[passage["start"] : passage["end"]] == passage["chunk_text"]
    part = f"{passage['document_id']}#{passage['start']}-{passage['end']}"
    assert (await call("get_document", document_id=part))["full_text"] == passage["chunk_text"]


async def test_document_keeps_a_budget_and_leads_on(call):
    """The parts make up the text; without max_tokens only the contract's fields are there."""
    (passage,) = (await call("search_fomc", query="harvest of pears", top_k=1))["results"]
    whole = await call("get_document", document_id=passage["document_id"])
    assert "truncated" not in whole
    parts, cursor = [], passage["document_id"]
    while cursor:
        page = await call("get_document", document_id=cursor, max_tokens=270)
        assert count(encode(page).decode()) <= 270
        parts.append(page["full_text"])
        cursor = page.get("cursor")
    assert len(parts) > 1
    assert "".join(parts) == whole["full_text"]


async def test_document_is_complete_unless_a_budget_is_asked_for(call, fomc_library):
    """As its specification has it, also where it is longer than other answers may be."""
    text = "The Committee decided to maintain the target range. " * 3000
    await fomc_library.store("fomc", document("long", text, collection="fomc"))
    long = document_id("fomc", "long")
    assert count(text) > DEFAULT_TOKENS
    assert (await call("get_document", document_id=long))["full_text"] == text
    assert (await call("get_document", document_id=long, max_tokens=DEFAULT_TOKENS))["truncated"]


@pytest.mark.parametrize(
    ("question", "kind", "day"),
    [
        ("why did the Committee raise rates in March 2022", None, "2022-03-16"),
        ("the statement of February 2023", "statement", "2023-02-01"),
        ("what did the minutes say about pears", "minutes", "2022-03-16"),
        ("who voted against lowering the target range", None, "2020-03-15"),
    ],
)
async def test_question_finds_the_document_that_it_means(fomc_library, question, kind, day):
    """By date, by type, or by its words."""
    hit = (await search_corpus(fomc_library, question, 3, None)).hits[0]
    assert hit.metadata["date"] == day
    assert kind is None or hit.metadata["type"] == kind


async def test_filter_uses_the_names_of_the_tool(fomc_library):
    """document_date, document_type, document_name, section_header."""
    where = {"$and": [{"document_date": {"$gte": "2022-01-01"}}, {"document_type": "statement"}]}
    hits = (await search_corpus(fomc_library, "inflation", 10, where)).hits
    assert {hit.metadata["date"] for hit in hits} == {"2022-03-16", "2023-02-01"}
    with pytest.raises(Fault, match=r"Known: .*document_date.*document_name.*document_type"):
        await search_corpus(fomc_library, "inflation", 10, {"date_of_document": "2022"})


async def test_without_documents_the_corpus_is_empty(library):
    """The message says how to fill it."""
    with pytest.raises(Fault, match="searchbus ingest fomc") as caught:
        await search_corpus(library, "inflation", 5, None)
    assert caught.value.code == "empty_corpus"


def test_prompt_has_a_placeholder_for_each_argument():
    """The edge fills them in."""
    (prompt,) = build_worker(None).catalog.prompts  # type: ignore[arg-type]
    assert (prompt.toolset, prompt.name) == ("fomc", "compare_fomc_statements")
    assert [(a.name, a.required) for a in prompt.arguments] == [
        ("earlier", True), ("later", True), ("focus", False)
    ]  # fmt: skip
    text = prompt.messages[0].content.text
    assert all(f"{{{argument.name}}}" in text for argument in prompt.arguments)
