"""Which part of a passage answers."""

from __future__ import annotations

from searchbus_edge.composites.briefing import Text, focus
from searchbus_passages import Ruler

FILLER = "Boats went out to the wide blue sea on most days of the week. "
OPENING = (
    "Minutes of the Federal Open Market Committee March 21-22, 2023 A joint meeting of the Federal "
    "Open Market Committee and the Board of Governors of the Federal Reserve System was held in the "
    "offices of the Board of Governors on Tuesday, March 21, 2023, at 10:00 a.m. Attendance Ana L. "
    "Quince, Chair Bo Tamarind, Vice Chair Cy Fennel Di Larkspur Ed Mallow Flo Sorrel Gus Yarrow"
)
DECISION = "The members agreed that the target range would be raised to 4-3/4 to 5 percent at once."
TITLE = "FOMC Minutes, March 21-22, 2023"
TABLE = "| Plan | Price | Seats |\n|---|---|---|\n" + "".join(
    f"| Plan {n} | {n} crowns for each month | {n} |\n" for n in range(90)
)


async def parts(question, *texts, compare=None, titles=(), sure=True):
    titles = titles or [""] * len(texts)
    given = [Text(title, text, sure) for title, text in zip(titles, texts, strict=True)]
    found = await focus(question, given, compare)
    return [
        (one.passage, texts[one.passage][one.span.start : one.span.end], one.context)
        for one in found
    ]


async def test_line_below_the_heading_is_shown():
    """The heading alone answers nothing."""
    text = "# Vacation policy\n\nEverybody has 28 days a year.\n\nAsk early."
    assert await parts("How many vacation days?", text) == [(0, text, "")]


async def test_row_of_a_long_table_comes_with_its_header():
    """The header stands outside of the part."""
    ((_, shown, context),) = await parts("What does plan 77 cost?", TABLE)
    assert "| Plan 77 | 77 crowns" in shown
    assert context == "| Plan | Price | Seats |"


async def test_sentence_in_the_middle_is_found_by_words_or_by_meaning():
    """Without cosines, words decide."""
    text = f"{FILLER * 40}The ferry leaves at noon. {FILLER * 40}"

    async def near_noon(sentences):
        return [0.8 if "noon" in sentence else 0.5 for sentence in sentences]

    async def nothing(sentences):
        return None

    ((_, shown, _),) = await parts("When does the ferry leave?", text, compare=nothing)
    assert "at noon" in shown
    ((_, shown, _),) = await parts("departure ferry", text, compare=near_noon)
    assert "at noon" in shown


async def test_passages_beside_the_point_are_left_out_and_the_best_comes_first():
    """Whatever place they had."""
    answer = "The ferry leaves the harbour at noon. "
    found = await parts("When does the ferry leave the harbour?", FILLER, answer, FILLER)
    assert [passage for passage, *_ in found] == [1]


async def test_passage_that_the_search_put_first_stays_before_one_with_a_few_more_words():
    """The search knows dates and facts, which no sentence has."""
    vote = "Ms. Poe voted against the larger action of the board."
    talk = "Ms. Roe voted against the larger action of the board on Friday."
    found = await parts(
        "Who voted against the larger action of the board on Friday?", vote, talk, FILLER * 9
    )
    assert [passage for passage, *_ in found] == [0, 1]


async def test_list_of_names_comes_first_for_a_question_about_its_names_only():
    """The opening of minutes is near to each question about its meeting, since the date is in it."""

    async def best(question):
        found = await parts(question, OPENING, DECISION, titles=(TITLE, TITLE))
        return (OPENING, DECISION)[found[0][0]]

    assert (
        await best("What did the Committee decide on the target range in March 2023?") == DECISION
    )
    assert await best("Was Tamarind there in March 2023?") == OPENING


async def test_title_of_a_source_says_what_its_sentences_are_about():
    """Equal sentences of two documents: the one that the question names comes first."""
    text = "Members decided to keep the fee at 40 crowns. "
    titles = ("Minutes, May 2031", "Minutes, June 2031")
    found = await parts("What was the fee in June 2031?", text, text, titles=titles)
    assert [passage for passage, *_ in found][0] == 1


async def test_passage_that_is_far_answers_by_a_near_sentence_with_the_words_and_numbers():
    """As a whole it says other things; without cosines nothing speaks for it."""
    text = f"{FILLER}The offer for Pelorus was withdrawn in 2031 because of unpaid taxes. {FILLER}"

    async def near(sentences):
        return [0.65 if "Pelorus" in sentence else 0.4 for sentence in sentences]

    async def far(sentences):
        return [0.6] * len(sentences)

    async def found(question, compare):
        return await parts(question, text, compare=compare, sure=False)

    assert len(await found("Why was Pelorus not bought?", near)) == 1
    assert len(await found("Was Pelorus bought in 2031?", near)) == 1
    assert await found("Was Pelorus bought in 2032?", near) == []
    assert await found("Which vitamins does a newborn baby need?", near) == []
    assert await found("Why was Pelorus not bought?", far) == []
    assert await found("Why was Pelorus not bought?", None) == []


async def test_question_without_a_word_is_answered_by_no_far_passage():
    """Marks, emoji: no sentence speaks of them, however near it is."""

    async def near(sentences):
        return [0.8] * len(sentences)

    for question in ("?!... ()", "\U0001f642\U0001f643"):
        assert await parts(question, "The ferry leaves at noon.", compare=near, sure=False) == []


async def test_few_sentences_are_compared_the_likeliest_by_their_words_first():
    """Each takes milliseconds; those of the first passages come before equal ones."""
    seen = []

    async def compare(sentences):
        seen.extend(sentences)
        return [0.5] * len(sentences)

    texts = [FILLER * 30, FILLER * 30, f"{FILLER * 30}The ferry leaves at noon."]
    await parts("When does the ferry leave?", *texts, compare=compare, titles=("A", "B", "C"))
    assert len(seen) == 16
    assert seen[0] == "C\nThe ferry leaves at noon."
    assert {sentence[0] for sentence in seen[1:]} == {"A"}


async def test_part_of_an_endless_line_is_bounded():
    """It is cut between words."""
    text = "word " * 20_000 + "ferry " + "word " * 20_000
    ((_, shown, _),) = await parts("ferry", text)
    assert "ferry" in shown
    assert Ruler(shown).between(0, len(shown)) <= 300


async def test_nothing_has_no_part():
    """No passages, and empty ones."""
    assert await focus("q", []) == []
    assert await focus("q", [Text("", ""), Text("", " \n")]) == []
