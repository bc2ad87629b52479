"""To raise is not to lower."""

from __future__ import annotations

import pytest

from searchbus_retrieval.directions import Directions

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
