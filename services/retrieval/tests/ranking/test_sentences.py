"""How much of a question stands in one sentence of a passage."""

from __future__ import annotations

import pytest

from searchbus_retrieval.ranking.sentences import Sentences, beginnings

RARITY = {"limit": 4.0, "counterparty": 6.0, "raised": 2.0}


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("The desk raised the limits of counterparties. It adjourned.", 1.0),
        ("The limit is old. A counterparty left. Rates were raised.", 0.5),
        ("It was raised to the\n\nlimit", 4 / 12),
        ("The U.S. limit, 2.5 percent, was raised", 0.5),
        ("Nothing of it.", 0.0), ("delimited", 0.0), ("", 0.0),
    ],
)  # fmt: skip
def test_share_is_that_of_the_best_sentence(text, share):
    """By rarity, in every form of a word; an abbreviation or a blank line may end a sentence."""
    assert Sentences(RARITY).share_in(text) == pytest.approx(share)


def test_question_whose_words_no_passage_has_says_nothing():
    """Nor does one without words."""
    assert Sentences({"zorgle": 0.0}).share_in("zorgle") == 0.0
    assert Sentences({}).share_in("The limit. (And) more.") == 0.0


def test_beginnings_are_those_of_every_form():
    """Without stopwords."""
    assert beginnings("The policies of a Policy") == {"polici": "policies", "polic": "policy"}
