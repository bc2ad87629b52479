"""Phrases, names, synonyms and words that exclude each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_retrieval.question.dates import dates_of
from searchbus_retrieval.question.quantities import with_digits
from searchbus_retrieval.question.words import (
    SYNONYM_WEIGHT,
    Directions,
    Phrase,
    Phrases,
    Synonyms,
    has_word,
    is_name_in,
    name_words,
    opening_words,
    quoted,
    undamaged,
)
from searchbus_vectors import Sparse


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Lisa D. Cook", "PRESENT: Jerome H. Powell, LISA D.\n  COOK, Esther L. George"),
        ("Who is Lisa D. Cook?", "Present: Lisa D. Cook."),
        ("\u201cLisa D. Cook\u201d", "Lisa D. Cook"),
        ("what is the bank term funding program", "the new Bank Term\u00a0Funding Program, which"),
        ("the labor market's slack", "the labor market\u2019s slack"),
        ("March 21-22, 2023", "on March 21\u201322, 2023."),
        ("a long\u2014run goal", "the long-run goal"),
        ('the "neutral" rate', "its \u201cneutral\u201d rate"),
        ("Growth slowed. Inflation rose.", "Growth slowed. Inflation rose. Trade fell."),
        ("C++ (2023)", "It is written in C++ (2023)."),
        ("What is C++?", "It is written in C++."),
        ("C#", "C#: a language"),
        ("Quick start guide", "Quick start guide# Install it"),
        ("GDP growth", "GDP growth+inflation"),
        ("issue 5", "issue 5#comment"),
        ("caf\u00e9 cr\u00e8me", "A cafe\u0301 cre\u0300me."),
        ("cafe\u0301 cre\u0300me", "A caf\u00e9 cr\u00e8me."),
        ("to be or not to be", "To be, or not: to be or not to be."),
        ("range of 3-1/2 percent", "the range of 3\u00e2\u0080\u00911/2 percent"),
    ],
)
def test_phrase_is_found(query, text):
    """Case, white space, dashes, quotes and the words of a question make no difference."""
    assert Phrase(query).stands_in("Another text.", text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Cook", "a cookie and a precook"),
        ("Lisa D. Cook", "Cook, Lisa D."),
        ("rates rose in March", "rates rose in May"),
        ("", "anything"),
        ("?!", "anything ?!"),
        ("a.c", "abc"),
        ("C++", "Vitamin C"),
        ("C#", "Vitamin C"),
        ("C", "C++ and C#"),
        ("a compiler of C", "A compiler of C++"),
        ("C+", "C++"),
    ],
)
def test_other_text_is_not(query, text):
    """Whole words in the order of the query; a query without a word is in no text."""
    assert not Phrase(query).stands_in(text)


_ASKED = (
    "spring 2020", "winter of 2020-21", "first quarter of 2020", "six weeks after September 2020",
    "the sixth meeting of 2020", "the second half 2020", "since September 2020", "in the mid 1990s",
    "first meeting of 2020 or since october", "between August and September 2020 meetings",
    "sixty-six and a half percent", "twenty basis points", "nine percent",
)  # fmt: skip


@given(
    st.sampled_from(_ASKED),
    st.dictionaries(
        st.sampled_from("isk"), st.sampled_from("\u0130\u0131\u017f\u212a"), min_size=1
    ),
)
def test_letters_like_those_of_ascii_are_read_as_these(question, letters):
    """A pattern without regard to case finds them, also where the letter stands for another one."""
    same = {"\u0130": "I", "\u0131": "i", "\u017f": "s", "\u212a": "K"}
    written = question.translate(str.maketrans(letters))
    plain = question.translate(str.maketrans({old: same[new] for old, new in letters.items()}))
    assert dates_of(written) == dates_of(plain)
    assert with_digits(written) == with_digits(plain)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("effects of the SARS epidemic on Asian economies", ["SARS", "Asian"]),
        ("Who is Lisa D. Cook?", ["Lisa", "Cook"]),
        ("SARS and its effects. What followed?", ["SARS"]),
        ("why did rates rise", []),
        ("the call on Sunday, by Lisa", ["Lisa"]),
        ("", []),
    ],
)
def test_names_have_capitals(question, names):
    """But for the first word of a sentence; an acronym is one everywhere."""
    assert name_words(question) == names


def test_phrases_in_quotes():
    """In every kind of quotes."""
    for question in ('the phrase "considerable time"', "the phrase \u201cconsiderable time\u201d"):
        (phrase,) = quoted(question)
        assert phrase.stands_in("for a considerable  time after")
        assert not phrase.stands_in("for some time")
    assert quoted("the phrase considerable time") == []


@pytest.mark.parametrize(
    ("text", "there"), [("(Brexit)", True), ("a Brexiteer", True), ("Brexit", True), ("noBrexit", False), ("", False)]
)  # fmt: skip
def test_words_are_found_at_their_beginning(text, there):
    """Not within a word."""
    assert has_word(text, "Brexit") is there
    assert has_word(f"noBrexit {text}", "Brexit") is there


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Miran on rates", ["Miran"]), ("Who is Cook?", []), ("Of it? Brexit. And pears", ["Brexit"]),
        ("why", []), ("", []),
    ],
)  # fmt: skip
def test_first_words_may_be_names(question, words):
    """Stopwords are not."""
    assert sorted(opening_words(question)) == words


def test_name_is_written_with_its_capital():
    """By every passage that has it."""
    assert is_name_in(["said Miran", "others"], "Miran")
    assert not is_name_in(["Effects of it", "its effects"], "Effects")
    assert not is_name_in(["others"], "Miran")


PHRASES = Phrases(
    {
        "voting against": ["dissent", "went against"],
        "employment": ["jobs"],
        "unemployment": ["out of work"],
    }
)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Why did George dissent?", "voting against"),
        ("He Went AGAINST it, a dissenting vote", "voting against"),
        ("dissent over jobs", "voting against, employment"),
        ("dissenters and their job", "voting against, employment"),
        ("work of a jobless union: who went, against", "voting against"),
        ("people out-of-work", "unemployment"),
        ("voting against employment", ""),
    ],
)
def test_words_are_those_of_the_documents_for_phrases_of_the_question(question, words):
    """Phrases are compared by the stems of all their words, in their order."""
    assert Synonyms(PHRASES, question).words == words


def test_question_is_embedded_with_the_documents_words():
    """Its words for which they have others are known."""
    synonyms = Synonyms(PHRASES, "Out of work, Poe went against it")
    assert synonyms.question == "Out of work, Poe went against it (unemployment, voting against)"
    assert synonyms.replaced == {"out", "of", "work", "went", "against"}
    assert Synonyms(PHRASES, "pears").question == "pears"


def test_synonyms_weigh_less_than_words():
    """And nothing beside a word of the question."""
    added = Synonyms(Phrases({}), "").added(Sparse([1, 2], [1.0, 1.8]), Sparse([2, 3], [1.0, 1.8]))
    assert added == Sparse([1, 2, 3], [1.0, 1.8, SYNONYM_WEIGHT])
    assert SYNONYM_WEIGHT < 1


GROUPS = (("raise", "increase"), ("lower", "cut", "reduction"), ("keep",))


@pytest.mark.parametrize(
    ("sentence", "agrees"),
    [
        ("decided to lower the target", True),
        ("a reduction to 1 percent after the increases of last year", True),
        ("decided to raise the target", False),
        ("decided to keep it", False),
        ("the target is 1 percent", True),
    ],
)
def test_sentence_of_another_direction_does_not_agree(sentence, agrees):
    """Unless it has the question's direction, too; in every form of the words."""
    assert Directions(GROUPS, "when was the rate cut to 1 percent?").agree(sentence) is agrees


@pytest.mark.parametrize("question", ["a rate of 1 percent", "was it raised or lowered?"])
def test_question_without_one_direction_excludes_nothing(question):
    """Nor does a collection without such words."""
    assert not Directions(GROUPS, question)
    assert Directions(GROUPS, question).agree("raise")
    assert Directions((), "raise it").agree("lower it")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("3\u00e2\u0080\u00911/2 to\u00e2\u0080\u00af4", "3\u20111/2 to\u202f4"),
        ("na\u00efve caf\u00e9", "na\u00efve caf\u00e9"),
        ("\u00c2\u00a35", "\u00c2\u00a35"),
        ("\u00e2\u0080", "\u00e2\u0080"),
    ],
)
def test_damaged_text_is_read_anew(text, read):
    """UTF-8 that was read as Latin-1, where a control character shows it; else nothing changes."""
    assert undamaged(text) == read
