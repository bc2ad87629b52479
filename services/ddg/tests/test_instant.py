"""The parser of the Instant Answer API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from searchbus_ddg.instant import Group, InstantAnswer, Topic, decode_instant
from searchbus_ddg.outcome import EngineError, Outcome
from searchbus_testing.waiting import work_ends
from searchbus_upstream import HttpReply

FIXTURES = Path(__file__).parent / "fixtures"


def decode(raw) -> InstantAnswer:
    return decode_instant(HttpReply(200, json.dumps(raw).encode()))


def read(name: str) -> InstantAnswer:
    return decode_instant(HttpReply(200, (FIXTURES / f"instant_{name}.json").read_bytes()))


def test_article():
    """Facts in the order of the infobox; ids of Wikidata and category pages are left out."""
    answer = read("article")
    assert answer.heading == "Blue whale"
    assert answer.abstract.startswith("The blue whale is a marine mammal")
    assert answer.abstract_url == "https://en.encyclopedia.example/wiki/Blue_whale"
    assert answer.facts == (("Length", "+30 m"), ("Diet", "Krill"))
    assert answer.results == (Topic("Official site", "", "https://whales.example.org"),)
    assert [topic.title for topic in answer.groups[0].topics] == ["History of whaling"]
    assert not answer.disambiguation
    assert not answer.empty


def test_category():
    """The link separates the title where the text has no dash."""
    (group,) = read("category").groups
    assert [(topic.title, topic.about) for topic in group.topics] == [
        ("Captain Kelp", "Captain Kelp sails the northern sea."),
        ("Doctor Foam", "Doctor Foam studies the songs."),
    ]


def test_disambiguation():
    """Topics without a heading come first."""
    answer = read("disambiguation")
    assert answer.disambiguation
    assert [group.name for group in answer.groups] == ["", "Science"]
    assert isinstance(answer.groups[1], Group)


def test_empty_answer():
    """Every field is missing or empty."""
    assert read("empty").empty


def test_article_that_may_refer_to_several_is_a_disambiguation():
    """Whatever its type is."""
    answer = decode({"Type": "A", "Heading": "TS", "AbstractText": "TS may refer to:",
                     "RelatedTopics": [{"Text": "TypeScript - A language"}]})  # fmt: skip
    assert answer.disambiguation
    assert answer.abstract == ""


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        ("calc", "2 + 2 = 4", "2 + 2 = 4"),
        ("calc", 4, "4"),
        ("calc", {"from": "calculator", "result": "4"}, "4"),
        ("calc", {"from": "calculator", "result": 0}, "0"),
        ("calc", "<style>#zci {color: red}</style><div>2 + 2 = <a href='x'>4</a></div>",
         "2 + 2 = 4"),
        ("calc", {"from": "calculator", "result": "", "templates": {"group": "base"}}, ""),
        ("ip", "Your IP address is 192.0.2.1 in <a href='https://a.example'>Oslo</a>",
         "Your IP address is 192.0.2.1 in Oslo"),
        ("color_code", "<script>draw()</script><p>Red</p>", ""),
    ],
)  # fmt: skip
def test_answer_of_a_calculator_or_of_the_address_is_kept(kind, given, text):
    """As text or in an object; types whose answer is a script of the site have none."""
    answer = decode({"Answer": given, "AnswerType": kind, "Type": "E"})
    assert answer.answer == text
    assert answer.empty == (text == "")


def test_half_a_character_costs_no_answer():
    """A cut escape is shown as `?`: it could not be sent."""
    assert decode({"Answer": "four \ud83d"}).answer == "four ?"


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, b"<html>", Outcome.UNKNOWN_MARKUP), (200, b"[1]", Outcome.UNKNOWN_MARKUP),
        (200, b"", Outcome.UNKNOWN_MARKUP), (500, b"{}", Outcome.UPSTREAM_ERROR),
        (429, b"", Outcome.RATE_LIMITED), (202, b"", Outcome.RATE_LIMITED),
        (200, b"[" * 100_000, Outcome.UNKNOWN_MARKUP),
    ],
)  # fmt: skip
def test_unreadable_reply_is_an_error(status, body, outcome):
    """It is never shown as "no instant answer"."""
    with pytest.raises(EngineError) as caught:
        decode_instant(HttpReply(status, body))
    assert caught.value.outcome is outcome


@pytest.mark.parametrize("raw", [{}, {"error": "quota"}, {"detail": {"error": "x"}}, {"meta": {}}])
def test_object_that_is_no_answer_is_a_failure(raw):
    """It does not read as an empty answer."""
    with pytest.raises(EngineError, match="none of the known fields"):
        decode(raw)


@pytest.mark.parametrize("unit", ["<", "<a>", "<style", "<script>", "</style "])
def test_hostile_text_takes_linear_time(unit):
    """It is read on the loop."""
    work_ends(lambda t: decode({"Answer": t, "Results": [{"Text": "x", "Result": t}]}), unit)
