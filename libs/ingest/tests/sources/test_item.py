"""From a text to a document."""

from __future__ import annotations

import pytest

from searchbus_contracts import decode, encode
from searchbus_contracts.ingest import NewDocument, document_id
from searchbus_ingest.sources import item
from searchbus_ingest.sources.item import make_document


def make(text: str, **options):
    options = {"source_id": "s", "title": "T"} | options
    return make_document("origin", collection="c", text=text, **options)


def test_text_becomes_a_document_with_passages():
    """With the id that its collection and source give."""
    made = make("Whales sing.", title="  A \n title ", url="https://example.org").document
    assert made.document_id == document_id("c", "s")
    assert (made.title, made.url) == ("A title", "https://example.org")
    assert [made.text[c.start : c.end] for c in made.chunks] == ["Whales sing."]


def test_lone_surrogate_is_replaced():
    """It could be neither sent nor stored: of each string of the document."""
    made = make(
        "Whales \ud800 sing.", source_id="s\ud83d", title="Launch \ud83d",
        url="https://example.org/\udc00", metadata={"by\ud83d": "A \ud83d", "year": 2024},
    ).document  # fmt: skip
    assert made.document_id == document_id("c", "s?")
    assert (made.text, made.title) == ("Whales ? sing.", "Launch ?")
    assert (made.url, made.metadata) == ("https://example.org/?", {"by?": "A ?", "year": 2024})
    assert decode(encode(made), NewDocument) == made


def test_address_that_no_document_may_have_is_left_out():
    """The service would refuse the documents that are sent with it."""
    made = make("Whales sing.", url="https://example.org/" + "x" * 4096, note="A page is lost")
    assert (made.document.url, made.document.text) == (None, "Whales sing.")
    assert "A page is lost; its address has more than 4096" in str(made)
    assert decode(encode(made.document), NewDocument) == made.document


@pytest.mark.parametrize("text", ["", " \n "])
def test_text_without_a_word_is_a_problem(text):
    """Not an exception: the next document is read."""
    assert make(text) == item.Item(
        "origin", problem="it contains no text", reason=item.Reason.EMPTY, source_id="s"
    )


def test_too_large_text_is_a_problem(monkeypatch):
    """The service would refuse it."""
    monkeypatch.setattr(item, "MAX_DOCUMENT_BYTES", 5)
    assert "split it" in make("Whales").problem
