"""Passages, and the estimate of their tokens beside the model's tokenizer."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from searchbus_passages import Ruler, model_tokens
from searchbus_passages.chunking import MAX_TOKENS, cut
from searchbus_vectors.models import resolve_model

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
    """Abbreviations and initials do not end one."""
    sentence = "Mr. J. Powell of the U.S. Board said that approx. 2.5 percent was near. "
    text = sentence * 60
    for chunk in cut(text):
        passage = text[chunk.start : chunk.end]
        assert passage.startswith("Mr. J.")
        assert passage.endswith("near.")


@pytest.mark.parametrize(
    "sentence",
    ["鲸鱼在夜里唱歌，它们的歌声穿越海洋。", "クジラは夜に歌うと、彼は言った。", "Киты поют по ночам, и песни слышны. ",
     "Οι φάλαινες τραγουδούν τη νύχτα. ", "Été comme hiver, les baleines chantent! "],
)  # fmt: skip
def test_sentences_of_other_scripts_are_whole(sentence):
    """Also where no spaces part them."""
    text = (sentence * 60).rstrip()
    assert len(cut(text)) > 1
    for chunk in cut(text):
        passage = text[chunk.start : chunk.end]
        assert passage.startswith(sentence[:5])
        assert passage.endswith(sentence.rstrip()[-5:])


def test_passages_are_of_even_length():
    """A long section is cut into passages near the target, without a short rest at the end."""
    text = PARAGRAPH * 40
    lengths = [chunk.end - chunk.start for chunk in cut(text)]
    assert min(lengths) > 500
    assert max(lengths) <= 1600


def test_word_without_an_end_is_broken():
    """A text without spaces still gives bounded chunks."""
    assert max(c.end - c.start for c in cut("x" * 20_000)) <= 1600


ROOT = Path(__file__).parents[3]
PROSE = (
    "Participants noted that spending had grown at a solid pace in recent months and that the "
    "labor market had remained tight by any measure that the staff reviewed. Every employee has 25 "
    "vacation days a year; up to five days may be carried into the next year, and they lapse at the "
    "end of March. A request that is cancelled before its deadline leaves no trace in the queue. "
)
TABLE = "| city | 2023 | 2024 | change |\n| --- | --- | --- | --- |\n" + "".join(
    f"| Place {n} | {n * 137} | {n * 149}.5 | +{n}.3 % |\n" for n in range(40)
)
GERMAN = (
    "Jeder Beschäftigte hat im Jahr fünfundzwanzig Urlaubstage; wer in Teilzeit arbeitet, hat "
    "entsprechend weniger. Die Einzelheiten werden in den Sitzungen des Ausschusses besprochen. "
)
SPANISH = (
    "Los participantes señalaron que la inflación seguía siendo elevada a pesar de las medidas "
    "adoptadas durante el año anterior. Cada empleado tiene veinticinco días de vacaciones. "
)
RUSSIAN = (
    "Участники заседания отметили, что экономическая активность продолжала расти умеренными "
    "темпами, а инфляция оставалась высокой. "
)
JAPANESE = (
    "委員会は最大雇用と物価安定の目標を支持し、金利の誘導目標を引き上げることを決定しました。"
)
GREEK = "Η επιτροπή αποφάσισε να αυξήσει το εύρος στόχου για το επιτόκιο. "
KINDS: dict[str, tuple[str, float]] = {
    "prose": (PROSE, 0.15),
    "markdown": ((ROOT / "docs" / "deploy.md").read_text(), 0.15),
    "table": (TABLE, 0.15),
    "code": (inspect.getsource(textwrap), 0.25),
    "json": (json.dumps([{"id": n, "name": f"item-{n}"} for n in range(99)], indent=1), 0.25),
    "numbers": (" ".join(str(n * n) for n in range(1, 400)), 0.25),
    "german": (GERMAN, 0.25),
    "spanish": (SPANISH, 0.25),
    "russian": (RUSSIAN, 0.25),
    "japanese": (JAPANESE, 0.25),
    "greek": (GREEK, 0.25),
}
"""Kind → text, and the largest share by which the estimate may be wrong over all of it."""
OVER = 1.3
"""No passage has more tokens than this multiple of the limit."""


@pytest.fixture(scope="module")
def count() -> Callable[[str], int]:
    """Counts tokens as the model does."""
    folder = resolve_model()
    assert folder is not None
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("kind", KINDS)
def test_estimate_is_near_the_tokenizer(kind, count):
    """Within 15 % for English prose, Markdown and tables, 25 % for all else."""
    text, bound = KINDS[kind]
    estimate = Ruler(text, model_tokens).between(0, len(text))
    assert estimate == pytest.approx(count(text), rel=bound)


@pytest.mark.parametrize("kind", KINDS)
def test_no_passage_is_far_over_the_limit(kind, count):
    """Sentences, tables, code and lists of numbers are split where they are too long."""
    text, _ = KINDS[kind]
    text *= max(1, 10_000 // len(text))
    lengths = [
        count(text[chunk.start : chunk.end]) for chunk in cut(text, markdown=kind == "markdown")
    ]
    assert len(lengths) > 3
    assert max(lengths) <= MAX_TOKENS * OVER


def test_parts_add_up_to_the_whole():
    """A part is measured like the text: the parts' estimates sum to the whole's."""
    tokens = Ruler(PROSE, model_tokens)
    middle = PROSE.index("Every")
    whole = tokens.between(0, len(PROSE))
    assert whole <= tokens.between(0, middle) + tokens.between(middle, len(PROSE)) <= whole + 1


@given(st.text(max_size=400), st.integers(0, 400), st.integers(0, 60))
def test_reach_is_the_longest_part_within_the_limit(text, start, limit):
    """The part up to the reach is within the limit, and the next piece would not be."""
    start = min(start, len(text))
    tokens = Ruler(text, model_tokens)
    end = tokens.reach(start, limit)
    assert start <= end <= len(text)
    assert end == start or tokens.between(start, end) <= limit
    if end < len(text):
        assert tokens.between(start, end + 1) > limit


def test_marks_over_letters_and_long_words_cost_nothing_more():
    """As in the tokenizer: accents of their own are dropped, an endless word is one token."""
    assert Ruler("e\u0301", model_tokens).between(0, 2) == 1
    assert Ruler("x" * 500, model_tokens).between(0, 500) == 1
