"""A library on an embedded store, with the embedder that needs no model; small FOMC documents."""

from __future__ import annotations

import pytest

from searchbus_contracts.ingest import Chunk, NewDocument, document_id
from searchbus_retrieval.library import Library
from searchbus_testing.folders import quick_folder
from searchbus_vectors import load_embedder, open_store


@pytest.fixture
async def embedder():
    return await load_embedder("hash")


@pytest.fixture
async def store():
    with quick_folder() as folder:
        store = await open_store(folder=folder)
        yield store
        await store.close()


@pytest.fixture
async def library(store, embedder):
    return await Library.open(store, embedder)


def document(
    source_id: str, text: str, *, collection: str = "c", title: str | None = None, **more
) -> NewDocument:
    """A document of passages of at most 1,000 characters."""
    return NewDocument(
        document_id=document_id(collection, source_id),
        title=title or f"Title of {source_id}",
        text=text,
        chunks=tuple(
            Chunk(start=start, end=min(start + 1000, len(text)))
            for start in range(0, len(text), 1000)
        ),
        **more,
    )


MINUTES = """Minutes of the Federal Open Market Committee

A meeting was held. PRESENT: Jane Q. Doe, Chair

Staff Review of the Economic Situation
The staff reported that spending on goods had grown slowly and that the harvest of pears had been
poor in most districts, which had raised the price of food by about 2 percent over the quarter.

Participants' Views on Current Conditions and the Economic Outlook
Participants noted that inflation remained elevated and that supply chains for pears and plums had
not recovered; several of them expected inflation to fall over the next year.
"""
FOMC = (
    ("statement", "2022-03-16", "The Committee decided to raise the target range for the federal "
     "funds rate to 1/4 to 1/2 percent. Inflation remains elevated. Voting for the action: Doe."),
    ("statement", "2023-02-01", "The Committee decided to raise the target range for the federal "
     "funds rate to 4-1/2 to 4-3/4 percent. Inflation has eased somewhat. Voting for: Doe, Roe."),
    ("statement", "2020-03-15", "The Committee decided to lower the target range for the federal "
     "funds rate to 0 to 1/4 percent. The outbreak has harmed communities. Voting against: Poe."),
    ("minutes", "2022-03-16", MINUTES),
)  # fmt: skip


@pytest.fixture
async def fomc_library(library):
    """Three statements and the minutes of one meeting, invented, in collection `fomc`."""
    for kind, day, text in FOMC:
        new = document(
            f"{kind}-{day}", text, collection="fomc", title=f"FOMC {kind.capitalize()}, {day}",
            url=f"https://www.federalreserve.gov/{kind}/{day}",
            metadata={"date": day, "type": kind},
        )  # fmt: skip
        assert (await library.store("fomc", new)).outcome == "stored"
    return library
