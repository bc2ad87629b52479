"""The FOMC corpus."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_retrieval.fomc import search


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
    hit = (await search(fomc_library, question, 3, None))[0]
    assert hit.metadata["date"] == day
    assert kind is None or hit.metadata["type"] == kind


async def test_filter_uses_the_names_of_the_tool(fomc_library):
    """document_date, document_type, document_name, section_header."""
    where = {"$and": [{"document_date": {"$gte": "2022-01-01"}}, {"document_type": "statement"}]}
    hits = await search(fomc_library, "inflation", 10, where)
    assert {hit.metadata["date"] for hit in hits} == {"2022-03-16", "2023-02-01"}
    with pytest.raises(Fault, match=r"Known: .*document_date.*document_name.*document_type"):
        await search(fomc_library, "inflation", 10, {"date_of_document": "2022"})


async def test_without_documents_the_corpus_is_empty(library):
    """The message says how to fill it."""
    with pytest.raises(Fault, match="searchbus ingest fomc") as caught:
        await search(library, "inflation", 5, None)
    assert caught.value.code == "empty_corpus"
