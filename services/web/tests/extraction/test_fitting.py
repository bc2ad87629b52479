"""Pages within a budget: exactly held, shared, cut at sentences, with a way to the rest."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_contracts import Fault, encode
from searchbus_passages import DEFAULT_TOKENS, count
from searchbus_web.extraction.envelope import start_of
from searchbus_web.extraction.extractor import ExtractedPage
from searchbus_web.extraction.fitting import fit

PROSE = "Whales sing in the deep sea. Nobody knows why they do it!\n\n" * 400
TABLE = "| 12.5 | 5\u20111/4 | caf\u00e9 |\n" * 2000
CJK = "\u9be8\u306e\u6b4c\u306f\u6d77\u3092\u6e21\u308b\u3002" * 3000
TEXTS = st.lists(st.sampled_from(["Short.", PROSE.strip(), TABLE.strip(), CJK, "x" * 30_000, "\U0001f433\n" * 900 + "."]),
                 min_size=1, max_size=5)  # fmt: skip


def pages_of(texts: list[str]) -> list[ExtractedPage]:
    return [
        ExtractedPage(f"http://a.org/{n}", text, "ok", None, f"http://a.org/{n}")
        for n, text in enumerate(texts)
    ]


def inside(item) -> str:
    return re.search(r"<(untrusted_text_\w+)>\n(.*)\n</\1>", item.content, re.S)[2]


@settings(max_examples=20)
@given(TEXTS, st.integers(1500, 60_000))
def test_budget_holds_for_the_whole_answer(texts, most):
    """Every part is exactly its page's text, and the hash is that of the whole text."""
    items = fit(pages_of(texts), most)
    assert count(encode({"items": items}).decode()) <= most
    for item, text in zip(items, texts, strict=True):
        assert inside(item) == text[item.start : item.end]
        assert item.chars == len(text)
        assert item.content_hash == hashlib.sha256(text.encode()).hexdigest()
        assert item.truncated is (item.end < len(text))


def test_nothing_unasked_is_larger_than_hosts_accept():
    """Five long pages share the budget."""
    items = fit(pages_of([PROSE * 5] * 5), DEFAULT_TOKENS)
    assert count(encode({"items": items}).decode()) <= DEFAULT_TOKENS
    sizes = [len(inside(item)) for item in items]
    assert max(sizes) < 1.1 * min(sizes)
    assert all(inside(item).endswith((".", "!")) for item in items)


def test_short_pages_leave_their_share():
    """Two of three are whole."""
    items = fit(pages_of(["Short.", PROSE, "Also short."]), 2000)
    assert [item.truncated for item in items] == [False, True, False]
    assert len(inside(items[1])) > 2000


def test_cursor_leads_through_the_whole_page():
    """The parts make up the text."""
    text, start, parts = PROSE.strip(), 0, []
    while True:
        page = ExtractedPage("http://a.org/", text, "ok", None, "http://a.org/", start)
        (item,) = fit([page], 1000)
        parts.append(inside(item))
        assert item.start == text.index(parts[-1], start)
        if not item.truncated:
            break
        url, start = start_of(item.cursor)
        assert url == "http://a.org/"
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_budget_that_is_too_small_is_refused():
    """With what the answer takes without any text."""
    with pytest.raises(Fault, match=r"max_tokens is 100, but the answer takes \d+"):
        fit(pages_of([PROSE]), 100)


def test_failed_pages_have_no_offsets():
    """Their message stays."""
    (item,) = fit([ExtractedPage("http://a", "", "http_404", "Gone.")], 1000)
    assert encode(item) == b'{"url":"http://a","content":"","status":"http_404","message":"Gone."}'
