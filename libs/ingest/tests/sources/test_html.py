"""HTML to text with headings."""

from __future__ import annotations

import pytest

from searchbus_ingest.sources import html
from searchbus_ingest.sources.html import html_to_markdown


def test_html_keeps_structure_and_drops_the_rest():
    """Headings, lists and tables stay; scripts and menus go."""
    title, text = html_to_markdown(
        b"<title>T</title><body><nav>menu</nav><h2>Head</h2><p>One <b>two</b>.</p>"
        b"<ul><li>a</li><li>b</li></ul><script>x()</script><footer>foot</footer></body>"
    )
    assert title == "T"
    assert text.split("\n\n") == ["## Head", "One two.", "- a", "- b"]


def test_deeply_nested_html_is_read():
    """50,000 nested elements neither crash nor hang."""
    _, text = html_to_markdown(b"<div>" * 50_000 + b"deep" + b"</div>" * 50_000)
    assert len(text) < 100


def test_selector_limits_the_page_to_its_content():
    """Where the page has no such part, the body is read."""
    page = b"<body><p>menu</p><div id=main><p>text</p></div></body>"
    assert html_to_markdown(page, selector="#main, #other") == (None, "text")
    assert html_to_markdown(page, selector="#none") == (None, "menu\n\ntext")
    assert html_to_markdown(b"") == (None, "")


def test_too_large_page_is_refused(monkeypatch):
    """Before it is parsed."""
    monkeypatch.setattr(html, "MAX_HTML_BYTES", 10)
    with pytest.raises(ValueError, match="larger"):
        html_to_markdown(b"<p>0123456789</p>")
