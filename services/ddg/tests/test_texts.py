"""The Markdown of both tools, byte for byte, and the odd shapes of instant answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts.web import WebResult
from searchbus_ddg.instant import InstantAnswer, decode_instant
from searchbus_ddg.instant_text import instant_text
from searchbus_ddg.markdown import escape, search_text
from searchbus_ddg.outcome import DuckDuckGoError, Outcome
from searchbus_ddg.service import build_worker
from searchbus_upstream import Reply


def blocks_of(reference, mark):
    """The fenced blocks of the specification that hold a text."""
    text = (reference / "specs" / "duckduckgo_tools.ja.md").read_text()
    return [b.partition("\n")[2].rstrip("\n") for b in text.split("```")[1::2] if mark in b]


RUST = [
    WebResult(
        title="The Rust Programming Language",
        url="https://www.rust-lang.org/",
        snippet="Rust is a systems programming language focused on safety, speed, and concurrency.",
    ),
    WebResult(
        title="Rust (programming language) - Wikipedia",
        url="https://en.wikipedia.org/wiki/Rust_(programming_language)",
        snippet="Rust is a multi-paradigm, general-purpose programming language...",
    ),
]


def test_search_text_is_the_specifications(reference):
    """Its example shows two of three results."""
    shown = blocks_of(reference, "## Web Search Results")
    assert search_text("Rust programming", RUST).replace("(2 results)", "(3 results)") == shown[0]
    assert search_text("xyzzy12345noresult", []) == shown[1]


def test_instant_text_is_the_specifications(reference):
    """With everything there is, and with nothing."""
    shown = blocks_of(reference, "## Instant Answer")
    raw = {
        "AbstractText": "Rust is a multi-paradigm, general-purpose programming language\n"
        "that emphasizes performance, type safety, and concurrency.",
        "AbstractSource": "Wikipedia",
        "AbstractURL": "https://en.wikipedia.org/wiki/Rust_(programming_language)",
        "RelatedTopics": [
            {
                "Text": "Cargo - The Rust package manager",
                "FirstURL": "https://duckduckgo.com/Cargo",
            },
            {"Text": "Crates.io - The Rust community's crate registry", "FirstURL": ""},
        ],
    }
    assert instant_text("Rust programming language", decode(raw)) == shown[0]
    assert instant_text("xyzzy12345noresult", decode({})) == shown[1]


def test_tools_are_listed_as_the_specification_shows(reference):
    """Names, descriptions, schemas."""
    (block,) = blocks_of(reference, '"tools": [')
    expected = json.loads(block)["tools"]
    tools = {tool.name: tool for tool in build_worker(None).catalog.tools}
    assert len(tools) == len(expected) == 2
    for shown in expected:
        tool = tools[shown["name"]]
        assert (tool.name, tool.description) == (shown["name"], shown["description"])
        assert tool.input_schema == shown["inputSchema"]
        assert tool.output_schema is None


def decode(raw) -> InstantAnswer:
    return decode_instant(Reply(200, json.dumps(raw).encode()))


@pytest.mark.parametrize("name", ["A_rust", "C_simpsons", "D_eur", "synth_mizunomi"])
def test_recorded_answers(reference, name):
    """Each type shows what it has; checked by eye."""
    (path,) = (reference / "fixtures" / "instant_answer").glob(f"{name}*.json")
    answer = decode_instant(Reply(200, path.read_bytes()))
    text = instant_text("q", answer)
    if name == "A_rust":
        assert "### Abstract\nRust is" in text
        assert "- **Designed by:** Graydon Hoare" in text
        assert "numeric-id" not in text
        assert len(answer.groups[0].topics) == 1  # the other fourteen are lists of the site
    elif name == "C_simpsons":
        assert len(answer.groups[0].topics) == 8
        assert "- **Barney Gumble** - Barnard Arnold" in text
    elif name == "D_eur":
        assert text.startswith(
            '## Instant Answer for "q"\n\n### Disambiguation\n"EUR" may refer to:'
        )
        assert "- **EUR, Rome** - A residential" in text
    else:
        assert answer.empty


def test_groups_answers_definitions_redirects():
    """Everything that the API can hold has its place."""
    answer = decode(
        {
            "Heading": "Mercury", "Type": "D", "Answer": 42, "AnswerType": "something",
            "Definition": "A planet.", "DefinitionSource": "Dictionary", "DefinitionURL": "x y",
            "Redirect": "https://example.org/", "Image": "/i/a.png",
            "RelatedTopics": [
                {"Result": "<a href='https://duckduckgo.com/A'>A</a>First", "Text": "AFirst",
                 "FirstURL": "https://duckduckgo.com/A"},
                {"Name": "Planets", "Topics": [{"Text": "Mercury (planet) - Smallest"}]},
                "nonsense", None, {"Text": None}, {"Text": "http://broken text"},
            ],
            "Results": [{"Text": "Official site", "FirstURL": "javascript:alert(1)"}],
            "Infobox": {"content": [
                {"label": "Area", "value": {"amount": "+12", "unit": "km"}, "wiki_order": "2"},
                {"label": "Place", "value": {"latitude": 1.5, "longitude": 2}, "wiki_order": 1},
                {"label": "Id", "value": {"numeric-id": 5}}, "x", {"label": "Empty", "value": ""},
            ]},
        }
    )  # fmt: skip
    text = instant_text("mercury", answer)
    for part in (
        "### Answer\n42", "### Definition\nA planet.\n\n**Source:** Dictionary",
        "### Redirect\n**URL:** https://example.org/", "- **A** - First (https://duckduckgo.com/A)",
        "#### Planets\n- **Mercury (planet)** - Smallest", "### Facts\n- **Place:** 1.5, 2",
        "- **Area:** +12 km", "### Results\n- **Official site**",
    ):  # fmt: skip
        assert part in text
    assert "javascript" not in text
    assert "broken" not in text
    assert answer.image == "https://duckduckgo.com/i/a.png"


def test_article_that_may_refer_to_several_is_a_disambiguation():
    """Whatever its type says."""
    answer = decode({"Type": "A", "Heading": "TS", "AbstractText": "TS may refer to:",
                     "RelatedTopics": [{"Text": "TypeScript - A language"}]})  # fmt: skip
    assert answer.disambiguation
    assert answer.abstract == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip
FIELDS = [
    "Abstract", "AbstractText", "AbstractURL", "Answer", "AnswerType", "Definition", "Heading",
    "Infobox", "Redirect", "RelatedTopics", "Results", "Type", "Image",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8), st.text(max_size=30))
def test_any_json_is_rendered(raw, query):
    """A field of whatever type is shown or left out."""
    text = instant_text(query, decode(raw))
    assert text.endswith("_Source: DuckDuckGo Instant Answer API_")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"<html>", Outcome.UNKNOWN_MARKUP), (200, b"[1]", Outcome.UNKNOWN_MARKUP),
        (200, b"", Outcome.UNKNOWN_MARKUP), (500, b"{}", Outcome.UPSTREAM_ERROR),
        (429, b"", Outcome.RATE_LIMITED), (202, b"", Outcome.RATE_LIMITED),
        (200, b"[" * 100_000, Outcome.UNKNOWN_MARKUP),
    ],
)  # fmt: skip
def test_no_answer_is_a_refusal_not_emptiness(status, body, kind):
    """What cannot be read is never "no instant answer"."""
    with pytest.raises(DuckDuckGoError) as caught:
        decode_instant(Reply(status, body))
    assert caught.value.outcome is kind


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![x](http://evil.example/p.png)", r"!\[x](http://evil.example/p.png)"),
        ("<img src=x>", r"\<img src=x>"),
        ("# Heading", r"\# Heading"),
        ("--- a", r"\--- a"),
        ("snake_case and _em_ and *b*", r"snake_case and \_em\_ and \*b\*"),
        ("a\nb\u202ec\u200bd\x00e", "a bcde"),
        ("1. one", "1. one"),
    ],
)
def test_text_of_pages_forges_no_structure(text, shown):
    """Nothing of a page becomes a link, an image, a heading."""
    assert escape(text) == shown
