"""Documents, passages and quotations that are read back."""

from __future__ import annotations

import hashlib

import pytest

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, Fault
from searchbus_contracts.ingest import document_id, hash_of_text
from searchbus_contracts.retrieval import QuoteReply, QuoteRequest
from searchbus_retrieval.access import Access
from searchbus_retrieval.documents.reading import DocumentReader, Span
from searchbus_retrieval.documents.records import TEXT_PART_CHARS, point_id
from searchbus_retrieval.service import build_worker

from ..conftest import FOMC, document

TEXT = "\ufeffPears\r\n\r\ne\u0301clair 5\u20111/4 \U0001f350 | a | b |\n" * 6000
ID, SHORT = document_id("c", "long"), document_id("c", "short")


class CountingStore:
    """Records the ids that are read."""

    def __init__(self, store) -> None:
        self._store = store
        self.read: list[int] = []

    async def get(self, collection, ids):
        self.read.append(len(ids))
        return await self._store.get(collection, ids)


@pytest.fixture
async def reader(library, store):
    assert len(TEXT) > 2 * TEXT_PART_CHARS
    await library.store("c", document("long", TEXT))
    return DocumentReader(store)


async def test_whole_document_has_its_text_length_and_hash(reader):
    """Combining marks, CRLF, U+2011, emoji and a byte order mark survive."""
    found = await reader.read("c", ID)
    assert (found.text, found.start, found.end) == (TEXT, 0, len(TEXT))
    assert found.chars == len(TEXT)
    assert found.content_hash == hashlib.sha256(TEXT.encode()).hexdigest()


async def test_spans_of_several_documents_are_read_at_once(library, store):
    """Across stored parts; one of a revision that was replaced has no text, the others have."""
    await library.store("c", document("long", TEXT))
    await library.store("c", document("short", "Pears and plums."))
    counting = CountingStore(store)
    long, short = [
        one.payload["revision"]
        for one in await store.get("c", [point_id("record", key) for key in (ID, SHORT)])
    ]
    wanted = [
        Span(ID, long, TEXT_PART_CHARS - 3, TEXT_PART_CHARS + 4),
        Span(SHORT, short, 6, 9),
        Span(SHORT, "replaced", 0, 5),
        Span(ID, long, 2 * TEXT_PART_CHARS, 2 * TEXT_PART_CHARS + 5),
    ]
    found = await DocumentReader(counting).spans("c", wanted)
    texts = [TEXT[one.start : one.end] for one in wanted]
    assert found == [texts[0], "and", None, texts[3]]
    assert counting.read == [5]
    assert await DocumentReader(counting).spans("c", []) == []


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 1), (7, 4000), (TEXT_PART_CHARS - 1, TEXT_PART_CHARS + 1), (TEXT_PART_CHARS, 2 * TEXT_PART_CHARS),
     (199_990, None), (3, 10**9)],
)  # fmt: skip
async def test_part_of_a_document_is_a_slice_of_its_text(reader, start, end):
    """Also across the parts in which it is stored; an end beyond the text is the text's end."""
    found = await reader.read("c", ID, start=start, end=end)
    assert found.text == TEXT[start:end]
    assert (found.start, found.end) == (start, min(end or len(TEXT), len(TEXT)))
    assert found.chars == len(TEXT)


async def test_part_reads_only_the_stored_parts_that_it_needs(reader, store):
    """One record, then one of three parts."""
    counting = CountingStore(store)
    await DocumentReader(counting).read("c", ID, start=TEXT_PART_CHARS, end=TEXT_PART_CHARS + 9)
    assert counting.read == [1, 1]


async def test_start_beyond_the_text_is_refused(reader):
    """With the length, since the document may have changed."""
    with pytest.raises(Fault, match=f"has {len(TEXT)} characters"):
        await reader.read("c", ID, start=len(TEXT))


async def test_missing_document_is_none(reader):
    """So is one of a collection that does not exist."""
    assert await reader.read("c", "other") is None
    assert await reader.read("none", ID) is None


PEARS = "Pears and plums.\r\n" * 90


async def holds(library, hits):
    for hit in hits:
        found = await library.get_from(["c"], hit.document_id)
        assert found.text[hit.start : hit.end] == hit.text
        assert hit.content_hash == hashlib.sha256(found.text.encode()).hexdigest()


async def test_hits_have_anchors(library):
    """text[start:end] is the passage, and the hash is the text's."""
    for name in ("pears", "plums"):
        await library.store("c", document(name, PEARS + f"Sardines at the end of {name}."))
    hits = await library.search("c", "sardines", limit=5)
    assert len(hits) == 2
    await holds(library, hits)


QUOTED_ID = document_id("fomc", "statement-2022-03-16")
QUOTED = FOMC[0][2]


@pytest.fixture
async def quote(fomc_library):
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(fomc_library, access=Access({"fomc": ["FED"]})))
    bus = broker.connect()

    async def quote(text: str, *, document: str = QUOTED_ID, roles=("FED",), collection=None):
        request = QuoteRequest(document_id=document, quote=text, collection=collection)
        return await bus.request(
            bus.subjects.endpoint("retrieval", "quote"), request, QuoteReply,
            service="retrieval", timeout_s=30, actor=Actor(subject="a", roles=roles),
        )  # fmt: skip

    return quote


async def test_exact_quotation_has_its_place_and_the_hash(quote):
    """With the document's title and address."""
    found = await quote("Inflation remains elevated.", collection="fomc")
    assert (found.match, found.text) == ("exact", "Inflation remains elevated.")
    assert QUOTED[found.start : found.end] == found.text
    assert found.content_hash == hash_of_text(QUOTED)
    assert (found.title, found.differences) == ("FOMC Statement, 2022-03-16", ())


async def test_wrong_quotation_has_the_nearest_text_and_the_difference(quote):
    """raise is not lower."""
    found = await quote("The Committee decided to lower the target range")
    assert (found.match, found.text) == (
        "nearest",
        "The Committee decided to raise the target range",
    )
    assert [(d.quote, d.document) for d in found.differences] == [("lower", "raise")]


async def test_quotation_from_elsewhere_is_nowhere(quote):
    """No text, no place."""
    found = await quote("Quokkas jumped over zebras")
    assert (found.match, found.start, found.end, found.text) == ("none", 0, 0, "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"text": " "}, "invalid_argument"), ({"text": "x" * 2001}, "invalid_argument"),
        ({"text": "Inflation", "document": "none"}, "not_found"),
        ({"text": "Inflation", "roles": ()}, "not_found"),
    ],
)  # fmt: skip
async def test_failures_are_typed(quote, arguments, code):
    """A document that the caller may not read looks absent."""
    with pytest.raises(Fault) as caught:
        await quote(**arguments)
    assert caught.value.code == code
