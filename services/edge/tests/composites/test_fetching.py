"""The result of fetch: the specification's object, never larger than its budget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_contracts import Fault, encode
from searchbus_contracts.queries import Part
from searchbus_edge.composites.sources import Fetch, FetchedSource, fit
from searchbus_passages import DEFAULT_TOKENS, count

PROSE = "The Committee decided to raise the range. Nobody voted \u201cno\u201d!\r\n" * 3000
TABLE = "| 5\u20111/4 | 12.5 |\n" * 4000
TEXTS = st.sampled_from(
    [PROSE, TABLE, "x" * 99_000, "\U0001f350\u9be8" * 20_000, "\ufeffShort.", "e\u0301" * 40_000]
)


def fetched(
    text: str, start: int = 0, length: int | None = None, mark: str | None = None
) -> FetchedSource:
    return FetchedSource(
        "doc:a:b",
        "Title",
        text,
        "https://x.example",
        {"source": "documents"},
        start,
        length,
        "h" * 64,
        mark,
    )


def without_notice(found) -> str:
    """The text of the document alone."""
    if "truncated" not in found.metadata:
        return found.text
    text, notice = found.text.rsplit("\n", 1)
    assert notice == (
        f"[Cut at character {found.metadata['end']} of {found.metadata['chars']}. "
        f"Fetch {found.metadata['cursor']} for the rest.]"
    )
    return text


def test_text_that_fits_is_whole():
    """Only its hash is added to the metadata."""
    found = fit(Part("doc:a:b"), fetched("Short text."), DEFAULT_TOKENS)
    assert encode(found) == encode({
        "id": "doc:a:b", "title": "Title", "text": "Short text.", "url": "https://x.example",
        "metadata": {"source": "documents", "content_hash": "h" * 64, "untrusted": "true"},
    })  # fmt: skip


@settings(max_examples=30)
@given(TEXTS, st.integers(300, 30_000), st.sampled_from([None, "untrusted_text_ab12cd34"]))
def test_budget_holds_and_the_text_is_a_beginning(text, most, mark):
    """Counted over the JSON that the model reads."""
    found = fit(Part("doc:a:b"), fetched(text, mark=mark), most)
    assert count(encode(found).decode()) <= most
    inner = without_notice(found)
    if mark is not None:
        assert inner.endswith(f"\n</{mark}>")
        inner = inner.split("\n", 1)[1].removesuffix(f"\n</{mark}>")
    assert text.startswith(inner)
    assert (inner != text) is (found.metadata.get("truncated") == "true")


@pytest.mark.parametrize("text", [PROSE, TABLE])
def test_cursor_leads_through_the_whole_text(text):
    """The parts, one after the other, are the text."""
    part, parts = Part("doc:a:b"), []
    while True:
        rest = fetched(text[part.start : part.end], part.start, len(text))
        found = fit(part, rest, 9000)
        parts.append(without_notice(found))
        if "truncated" not in found.metadata:
            break
        assert found.metadata["end"] == str(part.start + len(parts[-1]))
        part = Part.of(found.metadata["cursor"])
    assert len(parts) > 3
    assert "".join(parts) == text


def test_caller_without_a_budget_gets_the_whole_text():
    """Also of minutes, which are longer than most hosts show; a book is cut, and says so."""
    most = Fetch("doc:a:b").max_tokens
    minutes = PROSE[:100_000]
    assert count(minutes) > DEFAULT_TOKENS
    assert fit(Part("doc:a:b"), fetched(minutes), most).text == minutes
    book = fit(Part("doc:a:b"), fetched(PROSE * 10), most)
    assert PROSE.startswith(without_notice(book)[: len(PROSE)])
    assert book.metadata["truncated"] == "true"


def test_cut_text_ends_with_a_sentence():
    """So that nothing is quoted that the document does not say."""
    found = fit(Part("doc:a:b"), fetched(PROSE), 5000)
    assert without_notice(found).endswith(("range.", "!"))


def test_requested_part_ends_where_it_should():
    """More text behind it is no truncation; a cursor stays inside the part."""
    whole = fit(Part("doc:a:b", 10, 20), fetched(PROSE[10:20], 10, len(PROSE)), 5000)
    assert whole.metadata["end"] == "20"
    assert "truncated" not in whole.metadata
    cut = fit(Part("doc:a:b", 10, 90_000), fetched(PROSE[10:50_000], 10, len(PROSE)), 5000)
    assert cut.metadata["cursor"].endswith("-90000")


def test_budget_that_is_too_small_is_refused():
    """With what the document takes without its text."""
    with pytest.raises(Fault, match=r"max_tokens is 100, but the answer takes \d+"):
        fit(Part("doc:a:b"), fetched(PROSE), 100)
