"""An index over invented tools, with the real model or with the embedder that needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest_asyncio

from searchbus_contracts import Actor, ToolDescriptor
from searchbus_contracts.toolindex import FindReply, FindRequest
from searchbus_toolindex.cohort import Nearness
from searchbus_toolindex.embedding import load_tool_embedder
from searchbus_toolindex.entries import Descriptor, IndexEntry, entry_of
from searchbus_toolindex.finder import IndexFinder
from searchbus_toolindex.index import Index
from searchbus_vectors import DIMENSIONS, Vector
from searchbus_vectors.hash_embedder import HashEmbedder, hashed_vector

NEARNESS = Nearness(0.6, 0.5, 0.7, np.zeros(DIMENSIONS, dtype=np.float32))
EVERY_ROLE = Actor(subject="every-role", roles=("*",))
TOOLS = {
    "get_forecast": "Get the weather forecast for a city and a number of days.",
    "send_message": "Send an email with attachments to one or several recipients.",
    "list_directory": "List the files in a directory with their sizes.",
    "create_chart": "Create a pie or bar chart from a table of numbers.",
    "translate_text": "Translate text from one language into another.",
    "get_stock_price": "Current price of a share on a stock exchange.",
    "take_screenshot": "Take a screenshot of the web page that is open in the browser.",
    "search_papers": "Search scientific papers by topic, author or year.",
    "convert_currency": "Convert an amount of money at the current exchange rate.",
    "search": "Find anything in the company's wiki.",
}


class RecordingEmbedder(HashEmbedder):
    """The embedder without a model; lists what it was asked for, and which of it urgently."""

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.urgent: list[str] = []

    async def embed_short(self, texts: Sequence[str], *, urgent: bool) -> list[Vector]:
        self.embedded += texts
        self.urgent += texts if urgent else ()
        return await super().embed_short(texts, urgent=urgent)


def tool(name: str, description: str, toolset: str = "office", **more) -> ToolDescriptor:
    return ToolDescriptor(
        name=name, toolset=toolset, description=description, input_schema={"type": "object"}, **more
    )


def entries(*descriptors: Descriptor) -> list[IndexEntry]:
    return list(map(entry_of, descriptors))


def index_of(*descriptors: Descriptor) -> Index:
    index = Index(HashEmbedder.model)
    index.replace("office", entries(*descriptors), vectors_of)
    return index


def vectors_of(entry: IndexEntry) -> list[Vector]:
    return [hashed_vector(text) for text in entry.embedded]


def find(index: Index, query: str, actor: Actor | None = None, **options) -> FindReply:
    """Search as nobody in particular, unless an actor is named."""
    request = FindRequest(query=query, **options)
    return asyncio.run(IndexFinder(index, RecordingEmbedder()).find(request, actor or Actor()))


def rows(reply: FindReply) -> list[tuple]:
    """All that a reply says about each match."""
    return [(f.toolset, f.name, f.score, f.cosine, f.matched) for f in reply.found]


def floats(*values: float):
    return np.array(values, dtype=np.float32)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def embedder():
    embedder = await load_tool_embedder(query_threads=2)
    yield embedder
    await embedder.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def finder(embedder) -> IndexFinder:
    """Ten tools under the real model."""
    found = entries(*(tool(name, about) for name, about in TOOLS.items()))
    texts = [text for entry in found for text in entry.embedded]
    vectors = dict(zip(texts, await embedder.embed_short(texts, urgent=False), strict=True))
    index = Index(embedder.model)
    index.replace("office", found, lambda entry: [vectors[t] for t in entry.embedded])
    return IndexFinder(index, embedder)
