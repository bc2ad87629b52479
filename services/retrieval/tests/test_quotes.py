"""Quotations in stored documents, as another service asks for them."""

from __future__ import annotations

import pytest

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, Fault
from searchbus_contracts.ingest import document_id, hash_of_text
from searchbus_contracts.retrieval import QuoteReply, QuoteRequest
from searchbus_retrieval.access import Access
from searchbus_retrieval.service import build_worker

from .conftest import FOMC

ID = document_id("fomc", "statement-2022-03-16")
TEXT = FOMC[0][2]


@pytest.fixture
async def quote(fomc_library):
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(fomc_library, access=Access({"fomc": ["FED"]})))
    bus = broker.connect()

    async def quote(text: str, *, document: str = ID, roles=("FED",), collection=None):
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
    assert TEXT[found.start : found.end] == found.text
    assert found.content_hash == hash_of_text(TEXT)
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
