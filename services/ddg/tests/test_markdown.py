"""The Markdown of web_search."""

from __future__ import annotations

import pytest

from searchbus_contracts.web import WebResult
from searchbus_ddg.markdown import escape, heading, search_text


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
