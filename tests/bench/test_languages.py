"""The set of questions in ten languages."""

from __future__ import annotations

from collections import Counter

from .languages import read


def test_every_question_has_its_text():
    """Ten questions of each of ten languages; no text is left without one."""
    texts = [text["id"] for text in read("language_texts.jsonl")]
    questions = read("language_questions.jsonl")
    assert len(set(texts)) == len(texts) == 20
    assert {question["document"] for question in questions} == set(texts)
    counts = Counter(question["language"] for question in questions)
    assert (len(counts), set(counts.values())) == (10, {10})
