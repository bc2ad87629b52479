"""Cutting: nothing lost, nothing doubled, sections and sentences respected."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from searchbus_ingest.chunking import cut
from searchbus_ingest.headings import find_headings

PARAGRAPH = (
    "Participants noted that spending had grown at a solid pace in recent months and that the "
    "labor market had remained tight by any measure that the staff reviewed for the meeting. "
)


@given(st.text(max_size=3000), st.booleans())
def test_every_visible_character_lies_in_exactly_one_chunk(text, markdown):
    """Chunks are in order, do not overlap, and leave out white space only."""
    position = 0
    for chunk in cut(text, markdown=markdown):
        assert position <= chunk.start < chunk.end <= len(text)
        assert not text[position : chunk.start].strip()
        position = chunk.end
    assert not text[position:].strip()


def test_chunks_end_at_sentences():
    """Abbreviations and initials end none."""
    sentence = "Mr. J. Powell of the U.S. Board said that approx. 2.5 percent was near. "
    text = sentence * 60
    for chunk in cut(text):
        passage = text[chunk.start : chunk.end]
        assert passage.startswith("Mr. J.")
        assert passage.endswith("near.")


def test_passages_are_of_even_length():
    """A long section is cut into passages near the target, without a crumb at the end."""
    text = PARAGRAPH * 40
    lengths = [chunk.end - chunk.start for chunk in cut(text)]
    assert min(lengths) > 500
    assert max(lengths) <= 1600


def test_word_without_an_end_is_broken():
    """A monster without spaces still gives bounded chunks."""
    assert max(c.end - c.start for c in cut("x" * 20_000)) <= 1600


def test_headings_on_their_own_lines_are_sections():
    """As in the minutes since 2020; names and dates are none."""
    text = (
        "Minutes of a Committee\n\nJanuary 5-6, 2021\n\nPRESENT:\nJane Q. Doe, Chair\nJohn Roe\n\n"
        "Ann Poe, Secretary\n\nStaff Review of the Weather\n" + PARAGRAPH * 3 + "\n\n"
        "Members' Views on Rain and the Outlook\n" + PARAGRAPH * 2 + "\n\n"
        "Notation Vote\n" + PARAGRAPH
    )  # fmt: skip
    assert [h.title for h in find_headings(text)] == [
        "Staff Review of the Weather",
        "Members' Views on Rain and the Outlook",
        "Notation Vote",
    ]
    sections = [chunk.section for chunk in cut(text)]
    assert sections[0] is None
    assert sections[-1] == "Notation Vote"


def test_set_phrases_are_sections_in_texts_without_lines():
    """As in the minutes before 2020, where headings stand inside one long line."""
    text = (
        "A meeting was held. PRESENT: Mr. A, Chair Ms. B, Economist, Reserve Bank of Richmond "
        "Annual Organizational Matters4 In the agenda it was reported that advices were received. "
        "Developments in Financial Markets and the Federal Reserve's Balance Sheet The Manager "
        "reported. Staff Review of the Economic Situation The information reviewed suggested "
        "growth. The staff review of the economic situation was long. Staff Economic Outlook In "
        "the forecast, growth was slower. Committee Policy Action In their discussion, members "
        "agreed. The meeting adjourned. Notation VoteBy notation vote the minutes were approved."
    )
    assert [h.title for h in find_headings(text)] == [
        "Annual Organizational Matters",
        "Developments in Financial Markets and the Federal Reserve's Balance Sheet",
        "Staff Review of the Economic Situation",
        "Staff Economic Outlook",
        "Committee Policy Action",
        "Notation Vote",
    ]


def test_markdown_headings_are_sections_outside_of_code():
    """A comment in a code block is no heading."""
    text = "# Title\n\nIntro.\n\n```sh\n# not this\n```\n\n## Use `it` ##\n\nMore.\n"
    assert [h.title for h in find_headings(text, markdown=True)] == ["Title", "Use `it"]


def test_real_minutes_of_every_era_have_their_sections(reference):
    """The headings that every reader of the minutes knows are found."""
    import json

    wanted = "Staff Review of the Economic Situation"
    for line in (reference / "data" / "fomc" / "docs.jsonl").open():
        row = json.loads(line)
        if row["type"] == "minutes" and row["date"] >= "2010" and wanted in row["text"]:
            assert wanted in {h.title for h in find_headings(row["text"])}, row["id"]
