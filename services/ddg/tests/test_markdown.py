"""The Markdown of web_search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts.web import WebResult
from searchbus_ddg.instant import InstantAnswer, decode_instant
from searchbus_ddg.markdown import escape, heading, instant_text, search_text
from searchbus_upstream import HttpReply


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


def test_results_are_numbered_with_url_and_snippet():
    """A line separates them; the source and their number end the text."""
    assert search_text("rust", RUST[:1]) == (
        '## Web Search Results for "rust"\n\n'
        "### 1. The Rust Programming Language\n"
        "**URL:** https://www.rust-lang.org/\n"
        "Rust is a systems programming language focused on safety, speed, and concurrency.\n\n"
        "---\n\n_Source: DuckDuckGo (1 results)_"
    )


def test_empty_results_say_so_and_notes_are_shown():
    """The query stays on one line."""
    assert search_text("a\nb", [], ["An old answer."]) == (
        '## Web Search Results for "a b"\n\nNo results found.\n\n_Note: An old answer._\n\n'
        "_Source: DuckDuckGo_"
    )
    assert heading("Instant Answer", "x\u202ey") == '## Instant Answer for "xy"'


def test_url_cannot_end_its_line():
    """Characters that a URL may not contain are percent-encoded."""
    row = WebResult(title="t", url="https://a.org/a b<c>`d`\n#x")
    assert "**URL:** https://a.org/a%20b%3Cc%3E%60d%60%0A#x\n" in search_text("q", [row])


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
def test_text_of_pages_cannot_change_the_structure(text, shown):
    """Nothing in it becomes a link, an image or a heading."""
    assert escape(text) == shown


FIXTURES = Path(__file__).parent / "fixtures"


def decode(raw) -> InstantAnswer:
    return decode_instant(HttpReply(200, json.dumps(raw).encode()))


def test_article_shows_abstract_facts_results_and_topics():
    """In this order, with the source below the abstract."""
    answer = decode_instant(HttpReply(200, (FIXTURES / "instant_article.json").read_bytes()))
    assert instant_text("blue whale", answer) == (
        '## Instant Answer for "blue whale"\n\n'
        "### Abstract\n"
        "The blue whale is a marine mammal and the largest animal known to have existed.\n\n"
        "**Source:** Encyclopedia\n"
        "**URL:** https://en.encyclopedia.example/wiki/Blue_whale\n\n"
        "### Facts\n- **Length:** +30 m\n- **Diet:** Krill\n\n"
        "### Results\n- **Official site** (https://whales.example.org)\n\n"
        "### Related Topics\n"
        "- **History of whaling** - The history of whaling begins before writing.\n\n"
        "_Source: DuckDuckGo Instant Answer API_"
    )


def test_disambiguation_shows_meanings_by_group():
    """With their URLs, under the heading that the specification gives to all topics."""
    answer = decode_instant(HttpReply(200, (FIXTURES / "instant_disambiguation.json").read_bytes()))
    assert instant_text("whale", answer) == (
        '## Instant Answer for "whale"\n\n'
        '### Related Topics\n"WHALE" may refer to:\n'
        "- **WHALE, Oslo** - A street in Oslo. (https://duckduckgo.com/WHALE,_Oslo)\n\n"
        "#### Science\n- **WHALE (instrument)** - A telescope in the southern sky. "
        "(https://duckduckgo.com/WHALE_%28instrument%29)\n\n"
        "_Source: DuckDuckGo Instant Answer API_"
    ).replace("%28", "(").replace("%29", ")")


def test_empty_answer_says_so_and_notes_are_shown():
    """The note of a stale answer stands before the source."""
    answer = decode_instant(HttpReply(200, (FIXTURES / "instant_empty.json").read_bytes()))
    assert instant_text("q", answer, ["Old."]) == (
        '## Instant Answer for "q"\n\nNo instant answer available for this query.\n\n'
        "_Note: Old._\n\n_Source: DuckDuckGo Instant Answer API_"
    )


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
    assert instant_text("xyzzy12345noresult", decode({"Type": ""})) == shown[1]


@pytest.mark.parametrize("name", ["A_rust", "C_simpsons", "D_eur", "synth_mizunomi"])
def test_recorded_answers(reference, name):
    """Each type shows what it has; checked by eye."""
    (path,) = (reference / "fixtures" / "instant_answer").glob(f"{name}*.json")
    answer = decode_instant(HttpReply(200, path.read_bytes()))
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
            '## Instant Answer for "q"\n\n### Related Topics\n"EUR" may refer to:\n- **'
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
    text = instant_text(query, decode({"Type": "", **raw}))
    assert text.endswith("_Source: DuckDuckGo Instant Answer API_")
