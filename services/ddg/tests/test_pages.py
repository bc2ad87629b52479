"""Result pages: recorded ones, mutated ones, small ones of our own."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fakes.ddg import _CHALLENGE, _html_row, _lite_row, _next_form, _page_of

from searchbus_contracts import Fault
from searchbus_contracts.queries import check_query
from searchbus_ddg.links import target_of
from searchbus_ddg.outcome import Outcome
from searchbus_ddg.page_client import quote_bangs
from searchbus_ddg.parse import parse_page
from searchbus_upstream.text import plain

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
def test_recorded_challenge_whatever_the_status(reference, status):
    """Never an empty result."""
    body = (reference / "fixtures" / "ddg" / "anomaly_html_202_meka.html").read_bytes()
    assert parse_page(status, body).outcome is Outcome.CHALLENGE


def test_no_results_on_an_explicit_marker_only(reference):
    """The page says so, or the answer is not empty."""
    body = (reference / "fixtures" / "ddg" / "synth_no_results_variants.html").read_bytes()
    assert parse_page(200, body).outcome is Outcome.EMPTY
    assert parse_page(202, body).outcome is Outcome.EMPTY
    lite = b"<html><body><table><tr><td>No results.</td></tr></table></body></html>"
    assert parse_page(200, lite).outcome is Outcome.EMPTY


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (202, b"<html><body></body></html>", Outcome.FINGERPRINT),
        (200, b"", Outcome.FINGERPRINT),
        (403, b"", Outcome.RATE_LIMITED),
        (429, b"slow down", Outcome.RATE_LIMITED),
        (500, b"oops", Outcome.UPSTREAM_ERROR),
        (200, b"<title>x at DuckDuckGo</title><p>a new design", Outcome.UNKNOWN_MARKUP),
        (200, _CHALLENGE.encode(), Outcome.CHALLENGE),
        (202, b"<div class='x anomaly-modal__mask'>", Outcome.CHALLENGE),
        (200, b"<script src=//duckduckgo.com/anomaly.js?cc=botnet>", Outcome.CHALLENGE),
    ],
)
def test_outcomes_are_kept_apart(status, body, kind):
    """Four different things look like an empty page."""
    assert parse_page(status, body).outcome is kind


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
def test_links_are_decoded_once_and_ads_dropped(href, target):
    """What no client should be sent to is no result."""
    assert target_of(href) == target


def pages():
    rows = [_html_row("cats", n) for n in range(5)]
    lite = [_lite_row("cats", n) for n in range(5)]
    return [
        _page_of("html", "cats", rows, _next_form("html", "cats", 10, "4-1")).encode(),
        _page_of("lite", "cats", lite, _next_form("lite", "cats", 10, "4-1")).encode(),
        _CHALLENGE.encode(),
    ]


BAD = [b"javascript:alert(1)", b"http://127.0.0.1/", b"https://duckduckgo.com/y.js?ad_domain=a"]


@settings(max_examples=300, deadline=2000)
@given(
    st.sampled_from(pages()),
    st.lists(
        st.tuples(st.integers(0, 6000), st.integers(0, 300), st.binary(max_size=40)), max_size=6
    ),
    st.lists(st.tuples(st.integers(0, 6000), st.sampled_from(BAD)), max_size=3),
    st.sampled_from([200, 202]),
)
@example(pages()[0], [], [(900, BAD[0])], 200)
def test_mutated_pages_never_break_or_leak(page, cuts, inserts, status):
    """No crash, no ad, no script, no private address; a challenge never turns into emptiness."""
    body = bytearray(page)
    for at, length, new in cuts:
        body[at : at + length] = new
    for at, bad in inserts:
        body[at:at] = b'"><div class="result"><a class="result__a" href="' + bad + b'">x</a></div>'
    found = parse_page(status, bytes(body))
    for row in found.rows:
        assert row.url.startswith(("http://", "https://"))
        assert "y.js" not in urlsplit(row.url).path
        assert urlsplit(row.url).hostname not in ("127.0.0.1", None)
        assert row.title == plain(row.title) != ""


@settings(max_examples=100, deadline=2000)
@given(st.binary(max_size=3000), st.sampled_from([200, 202, 403, 404, 500]))
def test_any_bytes_are_some_outcome(body, status):
    """And never `ok` without a row."""
    found = parse_page(status, body)
    assert (found.outcome is Outcome.OK) == bool(found.rows)


def test_every_prefix_of_a_page_gives_the_rows_that_are_whole():
    """In their order."""
    page = pages()[0]
    whole = parse_page(200, page).rows
    for end in range(0, len(page), 97):
        rows = parse_page(200, page[:end]).rows
        assert [r.title for r in rows] == [r.title for r in whole[: len(rows)]] or not rows


def test_bangs_are_quoted():
    """Else the search would be sent to another site."""
    assert quote_bangs("!g cats") == "'!g' cats"
    assert quote_bangs("cats !w dogs") == "cats '!w' dogs"
    assert quote_bangs("wow! really!? a!b ! !!") == "'wow!' really!? a!b ! !!"


def test_queries_have_limits():
    """Typed, and naming the limit."""
    assert check_query("  a \n b ", max_chars=499) == "a b"
    for bad in ("", " ", "x" * 500):
        with pytest.raises(Fault) as caught:
            check_query(bad, max_chars=499)
        assert caught.value.code == "invalid_query"
    assert check_query("x" * 499, max_chars=499)
