"""The answer of research_brief within a budget."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_contracts import Fault, encode
from searchbus_edge.composites.briefing import (
    BriefAnswer,
    BriefPassage,
    CitedSource,
    fit_brief,
    offset_of,
    passage_of,
)
from searchbus_edge.composites.sources import Anchor, Quoted
from searchbus_passages import count

FILLER = "Boats went out to the wide blue sea every day. " * 9
TEXT = f"{FILLER}Whales sing songs of \u9be8 at night. {FILLER}"
QUESTION = "Which whales sing?"


def answer_of(number: int, *, marks: bool = False) -> BriefAnswer:
    text = f"<untrusted_text_ab12cd34>\n{TEXT}\n</untrusted_text_ab12cd34>" if marks else TEXT
    passages = [
        BriefPassage(1 + n // 2, text, start=100, end=100 + len(TEXT)) for n in range(number)
    ]
    sources = [
        CitedSource(1 + n, f"doc:a:{n}", "Title", f"https://x.example/{n}", "documents/a", "ab" * 8)
        for n in range((number + 1) // 2)
    ]
    return BriefAnswer(True, passages, sources)


def inner(passage: BriefPassage) -> str:
    return re.sub(r"^<untrusted_text_\w+>\n|\n</untrusted_text_\w+>$", "", passage.text)


def test_answer_that_fits_is_unchanged():
    """Nothing is said of a budget."""
    answer = answer_of(2)
    assert asyncio.run(fit_brief(QUESTION, answer, [0], 25_000)) is answer


@settings(max_examples=30)
@given(st.integers(1, 8), st.integers(400, 3000), st.booleans())
def test_budget_holds_and_passages_keep_their_places(number, most, marks):
    """The best sentences are kept, between the passage's own marks."""
    answer = answer_of(number, marks=marks)
    found = asyncio.run(fit_brief(QUESTION, answer, [3, 5, 6, 9], most))
    assert count(encode(found).decode()) <= most
    assert len(found.passages) >= 1
    for passage in found.passages:
        shown = inner(passage)
        assert TEXT[passage.start - 100 : passage.end - 100] == shown
        assert (passage.text != shown) is marks
        assert "Whales sing" in shown
    assert {s.citation for s in found.sources} == {p.citation for p in found.passages}
    left_out = len(answer.sources) - len(found.sources)
    assert found.cursor == (str([3, 5, 6, 9][len(found.sources)]) if left_out else None)


async def test_sentences_are_chosen_by_words_and_meaning():
    """Those in other words than the question may be the nearest; without a cosine, words decide."""

    async def last_three(sentences):
        return [0.1] * (len(sentences) - 3) + [0.9] * 3

    async def nothing(sentences):
        return None

    whole = 100 + len(TEXT.rstrip())
    most = count(encode(answer_of(1)).decode()) * 2 // 3
    meant = await fit_brief(QUESTION, answer_of(1), [0], most, last_three)
    assert meant.passages[0].end == whole
    for compare in (nothing, None):
        found = await fit_brief(QUESTION, answer_of(1), [0], most, compare)
        assert "Whales sing" in found.passages[0].text
        assert found.passages[0].end < whole


def test_budget_that_is_too_small_is_refused():
    """With what one passage takes."""
    with pytest.raises(Fault, match=r"max_tokens is 100, but the answer takes \d+"):
        asyncio.run(fit_brief(QUESTION, answer_of(2), [0], 100))


def test_passage_without_a_place_has_no_offsets():
    """A snippet of a page, for instance."""
    assert encode(passage_of(1, Quoted("x"))) == b'{"citation":1,"text":"x"}'
    assert passage_of(1, Quoted("x", Anchor(3, 4, None))).end == 4


@pytest.mark.parametrize("cursor", ["0", "x", "", "100", "-1"])
def test_unknown_cursor_is_refused(cursor):
    """The message says what to do."""
    with pytest.raises(Fault, match="cursor: unknown"):
        offset_of(cursor)
    assert (offset_of(None), offset_of("7")) == (0, 7)
