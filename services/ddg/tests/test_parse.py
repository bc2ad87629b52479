"""Result pages: written by hand, mutated, cut off, and recorded ones where they are at hand."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from searchbus_ddg.outcome import REFUSALS, EngineError, Outcome
from searchbus_ddg.parse import MAX_PAGE_BYTES, parse_page, target_of
from searchbus_upstream.text import plain

FIXTURES = Path(__file__).parent / "fixtures"
WHALES = [
    "https://whales.example.org/",
    "https://en.encyclopedia.example/wiki/Blue_whale_(animal)",
    "https://news.example.com/2026/whale-counted?a=1&b=2",
    "https://shop.example.net/whale-mugs",
]


def read(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


@pytest.mark.parametrize("name", ["results.html", "results_with_ad.html", "lite.html"])
def test_rows_of_a_page_in_their_order_without_the_ad(name):
    """Redirect links are decoded; title and snippet are text."""
    page = parse_page(200, read(name))
    assert page.outcome is Outcome.OK
    assert [row.url for row in page.rows] == WHALES
    assert page.rows[0].title == "Blue whales & their songs"
    assert page.rows[1].snippet == "The blue whale is the largest animal known to have existed."


def test_dates_are_iso():
    """A row without a date has none."""
    dates = [row.published_at for row in parse_page(200, read("results.html")).rows]
    assert dates == [None, "2026-02-11T00:00:00Z", "2026-03-01T09:30:00Z", None]


@pytest.mark.parametrize("name", ["results.html", "lite.html"])
def test_form_of_the_next_page_is_read_unchanged(name):
    """With every hidden field, the token among them."""
    form = parse_page(200, read(name)).next_form
    assert form["vqd"] == "4-123456789012345678901234567890"
    assert (form["q"], form["s"], form["dc"], form["kl"]) == ("blue whale", "10", "11", "wt-wt")


def test_last_page_has_no_next_form():
    """The form for the previous page is not the next one."""
    page = parse_page(200, read("results_last_page.html"))
    assert (len(page.rows), page.next_form) == (2, {})


@pytest.mark.parametrize("status", [200, 202])
def test_challenge_is_recognised_whatever_the_status(status):
    """Also where the page holds something like a result."""
    page = parse_page(status, read("challenge.html"))
    assert (page.outcome, page.rows) == (Outcome.CHALLENGE, ())


@pytest.mark.parametrize("attribute", ["action", "src"])
@pytest.mark.parametrize("base", ["https://duckduckgo.com", "//duckduckgo.com", ""])
def test_challenge_is_recognised_by_where_its_elements_lead(attribute, base):
    """Without its other marks, however the address is written."""
    tag = "form" if attribute == "action" else "script"
    page = f'<html><{tag} {attribute}="{base}/anomaly.js?sv=html&amp;q=cats"></{tag}></html>'
    assert parse_page(200, page.encode()).outcome is Outcome.CHALLENGE


@pytest.mark.parametrize("name", ["results.html", "lite.html", "no_results.html"])
def test_words_of_a_challenge_in_query_and_snippets_are_no_challenge(name):
    """The page shows the query, and what others wrote: anybody could take the address out of use."""
    words = b"//duckduckgo.com/anomaly.js id=challenge-form class='anomaly-modal' bots use DuckDuckGo too"
    echo = b'<title>%b</title><input name=q value="%b"><script src="/d.js?q=%b"></script>'
    page = read(name).replace(b"largest animal", words)
    page = page.replace(b"</head>", echo % (words, words, words) + b"</head>")
    assert page.count(b"anomaly.js") >= 3
    found, plain_page = parse_page(200, page), parse_page(200, read(name))
    assert (found.outcome, len(found.rows)) == (plain_page.outcome, len(plain_page.rows))


@pytest.mark.parametrize("status", [200, 202])
def test_empty_needs_an_explicit_marker(status):
    """The page says that there are no results."""
    assert parse_page(status, read("no_results.html")).outcome is Outcome.EMPTY
    lite = b"<html><body><table><tr><td>No results.</td></tr></table></body></html>"
    assert parse_page(status, lite).outcome is Outcome.EMPTY


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (202, b"<html><body></body></html>", Outcome.BLANK),
        (200, b"", Outcome.BLANK),
        (403, b"", Outcome.RATE_LIMITED),
        (429, b"slow down", Outcome.RATE_LIMITED),
        (500, b"oops", Outcome.UPSTREAM_ERROR),
        (200, b"<title>x at DuckDuckGo</title><p>a new design", Outcome.UNKNOWN_MARKUP),
        (202, b"<div class='x anomaly-modal__mask'>", Outcome.CHALLENGE),
        (200, b"<script src=//duckduckgo.com/anomaly.js?cc=botnet>", Outcome.CHALLENGE),
    ],
)
def test_outcomes_are_told_apart(status, body, outcome):
    """Four different outcomes look like an empty page."""
    assert parse_page(status, body).outcome is outcome


BAD = [b"javascript:alert(1)", b"http://127.0.0.1/", b"https://duckduckgo.com/y.js?ad_domain=a"]


@settings(max_examples=300)
@given(
    st.sampled_from([read("results.html"), read("lite.html"), read("challenge.html")]),
    st.lists(
        st.tuples(st.integers(0, 6000), st.integers(0, 300), st.binary(max_size=40)), max_size=6
    ),
    st.lists(st.tuples(st.integers(0, 6000), st.sampled_from(BAD)), max_size=3),
    st.sampled_from([200, 202]),
)
@example(read("results.html"), [], [(900, BAD[0])], 200)
def test_mutated_pages_yield_public_rows_only(page, cuts, inserts, status):
    """No crash, no ad, no script, no private address."""
    body = bytearray(page)
    for at, length, new in cuts:
        body[at : at + length] = new
    for at, bad in inserts:
        body[at:at] = b'"><div class="result"><a class="result__a" href="' + bad + b'">x</a></div>'
    found = parse_page(status, bytes(body))
    for row in found.rows:
        assert row.url.startswith(("http://", "https://"))
        parts = urlsplit(row.url)
        assert not (str(parts.hostname).endswith("duckduckgo.com") and "y.js" in parts.path)
        assert urlsplit(row.url).hostname not in ("127.0.0.1", None)
        assert row.title == plain(row.title) != ""


@settings(max_examples=100)
@given(st.binary(max_size=3000), st.sampled_from([200, 202, 403, 404, 500]))
def test_any_bytes_have_an_outcome(body, status):
    """It is `ok` exactly where there are rows."""
    found = parse_page(status, body)
    assert (found.outcome is Outcome.OK) == bool(found.rows)


@pytest.mark.parametrize(
    "part", ["<div class=result>", "<p>", "</p>", "<!---->", "<table><tr>", "<a b=c d=e "]
)
def test_a_page_that_would_hold_the_loop_is_not_parsed(part):
    """Of the largest size that is fetched. Parsing the first one takes minutes."""
    row = "<div class=result><a class=result__a href=https://site.example/>t</a></div>"
    page = row + part * (MAX_PAGE_BYTES // len(part))
    assert parse_page(200, page.encode()).outcome is Outcome.UNKNOWN_MARKUP


@pytest.mark.parametrize("name", ["results.html", "results_with_ad.html", "lite.html"])
def test_every_prefix_of_a_page_yields_its_complete_rows(name):
    """In their order; the row that is cut off is left out."""
    page = read(name)
    whole = parse_page(200, page).rows
    for end in range(0, len(page), 97):
        rows = parse_page(200, page[:end]).rows
        assert [row.title for row in rows] == [row.title for row in whole[: len(rows)]]


RECORDED = {
    "results_rust_meka.html": (
        10, "rust-lang.org en.wikipedia.org www.howtogeek.com", 4, "11",
    ),
    "results_with_ad_meka.html": (
        10, "www.rtings.com www.pcmag.com www.nytimes.com", None, "12",
    ),
    "results_tpi.html": (4, "rust-lang.org en.wikipedia.org www.w3schools.com", 0, None),
    "danilo_ddg_lite_pagina_1.html": (10, "rust-lang.org en.wikipedia.org", 0, "11"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_pages(reference, name):
    """Rows in order without the ad, dates, the form of the next page; checked by eye."""
    count, hosts, dated, dc = RECORDED[name]
    page = parse_page(200, (reference / "fixtures" / "ddg" / name).read_bytes())
    assert page.outcome is Outcome.OK
    assert len(page.rows) == count
    found = [urlsplit(row.url).hostname for row in page.rows]
    assert found[: len(hosts.split())] == hosts.split()
    if dated is not None:
        assert sum(row.published_at is not None for row in page.rows) == dated
    assert page.next_form.get("dc") == dc
    assert all(row.title and row.snippet for row in page.rows)
    assert not any("y.js" in row.url or "duckduckgo.com" in row.url for row in page.rows)


@pytest.mark.parametrize("status", [200, 202])
def test_recorded_challenge_and_no_results(reference, status):
    """A challenge is never an empty result."""
    folder = reference / "fixtures" / "ddg"
    challenge = (folder / "anomaly_html_202_meka.html").read_bytes()
    assert parse_page(status, challenge).outcome is Outcome.CHALLENGE
    nothing = (folder / "synth_no_results_variants.html").read_bytes()
    assert parse_page(status, nothing).outcome is Outcome.EMPTY


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.org%2Fx%252Fy%3Fq%3D1%252B1&rut=1",
         "https://a.org/x%2Fy?q=1%2B1"),
        ("https://a.org/direct?x=%26", "https://a.org/direct?x=%26"),
        ("/l/?uddg=https%3A%2F%2Fa.org%2F", "https://a.org/"),
        ("//duckduckgo.com/l/?uddg=" + quote("https://duckduckgo.com/y.js?ad=1", safe=""), None),
        ("https://duckduckgo.com/y.js?ad_domain=x", None),
        ("https://html.duckduckgo.com/y.js?ad_domain=x", None),
        ("//duckduckgo.com/l/?uddg=" + quote("//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.org"), None),
        ("//duckduckgo.com/l/?rut=1", None),
        ("javascript:alert(1)", None),
        ("//duckduckgo.com/l/?uddg=javascript%3Aalert(1)", None),
        ("//duckduckgo.com/l/?uddg=http%3A%2F%2F127.0.0.1%2F", None),
        ("http://169.254.169.254/latest", None),
        ("//duckduckgo.com/l/?uddg=http%3A%2F%2F%5B%3A%3A1", None),
        ("https://en.wikipedia.org/wiki/DuckDuckGo", "https://en.wikipedia.org/wiki/DuckDuckGo"),
        ("", None),
        (None, None),
    ],
)  # fmt: skip
def test_links_are_decoded_once_and_ads_left_out(href, target):
    """A link to a page that is not public is not a result."""
    assert target_of(href) == target


def test_refusals_concern_the_address():
    """Other failures do not start a cooldown."""
    assert {str(outcome) for outcome in REFUSALS} == {
        "challenge", "blank_page", "rate_limited", "query_refused",
    }  # fmt: skip


def test_error_names_outcome_and_detail():
    """For the log."""
    error = EngineError(Outcome.RATE_LIMITED, "it limits this address (HTTP 429)", 7.0)
    assert str(error) == "rate_limited: it limits this address (HTTP 429)"
    assert (error.outcome, error.retry_after_s) == (Outcome.RATE_LIMITED, 7.0)
