"""The other engines: what their pages mean, and that a failure never reads like no results."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from searchbus_contracts.engines import ENGINES, EngineRequest, ddg_region
from searchbus_ddg.engines.known import BY_NAME
from searchbus_ddg.outcome import EngineError, Outcome
from searchbus_upstream import HttpReply

PAGES = Path(__file__).parent / "fixtures" / "engines"
NAMES = sorted(BY_NAME)
TOKEN = HttpReply(200, b'<script>DDG.x={vqd="4-123456789"}</script>')


def page_of(name: str) -> bytes:
    (found,) = PAGES.glob(f"{name}.*")
    return found.read_bytes()


def run(name: str, *replies: HttpReply, **options):
    """The page of an engine and the requests that led to it."""
    query = EngineRequest(engine=name, **{"query": "whales", **options})
    given = iter([TOKEN, *replies] if name == "ddg_news" else replies)
    steps = BY_NAME[name]().steps(query)
    requests = [next(steps)]
    while True:
        try:
            requests.append(steps.send(next(given)))
        except StopIteration as done:
            return done.value, requests


@pytest.mark.parametrize(
    ("name", "urls", "first"),
    [
        ("mojeek", ["https://whales.example.org/?a=1&b=2", "https://sea.example.net/w"],
         ("All about whales", "The whale sings & dives.")),
        ("brave_page", ["https://whales.example.org/", "https://old.example.net/x"],
         ("All about whales", "The whale sings.")),
        ("wikipedia", ["https://en.wikipedia.org/wiki/Blue_whale",
                       "https://en.wikipedia.org/wiki/C%2B%2B/Whale_(disambiguation)%3F"],
         ("Blue whale", "The blue whale & its song")),
        ("marginalia", ["https://whales.example.org/"], ("Whales", "They sing.")),
        ("ddg_news", ["https://news.example.org/whale", "https://news.example.org/2"],
         ("A <b>whale</b>?", "A whale was seen.")),
    ],
)  # fmt: skip
def test_rows_of_a_page(name, urls, first):
    """Advertisements, addresses that are not public and rows without a title are left out."""
    page, _ = run(name, HttpReply(200, page_of(name)))
    assert [row.url for row in page.rows] == urls
    assert (page.rows[0].title, page.rows[0].snippet) == first
    assert page.more == (name != "marginalia")
    if name == "ddg_news":
        assert [row.published_at for row in page.rows] == ["2026-03-20T09:46:40Z", None]


def test_half_a_character_costs_no_row():
    """Engines cut texts in the middle of an escaped one."""
    row = b'{"url": "http://a.example.org/", "title": "Okapi \\ud83d", "description": "x"}'
    page, _ = run("marginalia", HttpReply(200, b'{"results": [%b]}' % row))
    assert [found.title for found in page.rows] == ["Okapi ?"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, b"<html><body><h1>A new design</h1></body></html>", Outcome.UNKNOWN_MARKUP),
        (200, b"", Outcome.UNKNOWN_MARKUP),
        (200, b'{"results": [{"odd": 1}], "query": {"search": [{"odd": 1}]}}', Outcome.UNKNOWN_MARKUP),
        (200, b"{" * 100_000, Outcome.UNKNOWN_MARKUP),
        (200, b"[" * 100_000, Outcome.UNKNOWN_MARKUP),
        (403, b"Sorry, your network appears to send automated queries", Outcome.CHALLENGE),
        (429, b"", Outcome.RATE_LIMITED), (403, b"", Outcome.RATE_LIMITED),
        (202, b"", Outcome.CHALLENGE), (302, b"", Outcome.UPSTREAM_ERROR),
        (500, b"oops", Outcome.UPSTREAM_ERROR),
    ],
)  # fmt: skip
def test_a_failure_is_never_an_empty_page(name, status, body, outcome):
    """Changed markup, a challenge, a limit and an error each have their own outcome."""
    with pytest.raises(EngineError) as raised:
        run(name, HttpReply(status, body))
    assert raised.value.outcome is outcome


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("mojeek", b"<html><body><h2>No pages found matching: <b>xyzzy</b></h2></body></html>"),
        ("brave_page", b"<body><p>Not many great matches came back for your search</p></body>"),
        ("wikipedia", b'{"batchcomplete": true, "query": {"search": []}}'),
        ("marginalia", b'{"license": "x", "query": "x", "results": []}'),
        ("ddg_news", b'{"results": []}'),
    ],
)
def test_only_a_page_that_says_so_is_empty(name, body):
    """Explicit words, or a list without rows."""
    page, _ = run(name, HttpReply(200, body))
    assert (page.rows, page.more) == ((), False)


WORDS = "captcha unusual traffic <form id='challenge-form' action='//duckduckgo.com/anomaly.js'>"


@pytest.mark.parametrize(
    ("name", "body", "rows"),
    [
        ("mojeek", f"<h2>No pages found matching: {html.escape(WORDS)}</h2>", 0),
        ("brave_page", f"<p>No results found for {html.escape(WORDS)}</p>", 0),
        ("mojeek", page_of("mojeek").decode().replace(">Sea<", f">{html.escape(WORDS)}<"), 2),
        ("ddg_news", page_of("ddg_news").decode().replace("A whale was seen", WORDS), 2),
    ],
)
def test_words_of_a_challenge_in_query_and_snippets_are_no_challenge(name, body, rows):
    """The engine would not be asked for an hour; of news, DuckDuckGo would not be."""
    page, _ = run(name, HttpReply(200, body.encode()), query=WORDS)
    assert len(page.rows) == rows


def test_a_token_is_read_from_a_page_that_shows_words_of_a_challenge():
    """They are those of the query."""
    shown = f"<title>{html.escape(WORDS)}</title><script src='/d.js?q=/anomaly.js'></script>"
    steps = BY_NAME["ddg_news"]().steps(EngineRequest(engine="ddg_news", query=WORDS))
    next(steps)
    request = steps.send(HttpReply(200, shown.encode() + TOKEN.body))
    assert request.params["vqd"] == "4-123456789"
    challenge = b"<form id=challenge-form action='//duckduckgo.com/anomaly.js?q=x'>"
    steps = BY_NAME["ddg_news"]().steps(EngineRequest(engine="ddg_news", query="whales"))
    next(steps)
    with pytest.raises(EngineError) as raised:
        steps.send(HttpReply(202, challenge))
    assert raised.value.outcome is Outcome.CHALLENGE


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("mojeek", {"q": "whales", "s": "11", "safe": "1"}),
        ("brave_page", {"q": "whales", "offset": "1", "tf": "pw"}),
        ("wikipedia", {"srsearch": "whales", "sroffset": "10"}),
        ("marginalia", {"query": "whales", "page": "2", "nsfw": "1"}),
        ("ddg_news", {"q": "whales", "s": "30", "l": "ch-fr", "df": "w", "p": "1",
                      "vqd": "4-123456789"}),
    ],
)  # fmt: skip
def test_request_has_page_and_filters(name, sent):
    """Region and language are cookies of the engines that have no parameter for them."""
    _, requests = run(
        name, HttpReply(200, page_of(name)),
        page=2, region="ch", language="fr", safe="strict", time="w",
    )  # fmt: skip
    request = requests[-1]
    assert sent.items() <= request.params.items()
    cookies = request.headers.get("Cookie", "")
    assert ("ch" in cookies) == (name in ("mojeek", "brave_page"))
    assert name != "wikipedia" or request.host == "fr.wikipedia.org"


def test_news_token_is_used_again_until_it_fails():
    """One request for the second page; a reply of no use ends the token."""
    engine = BY_NAME["ddg_news"]()
    query = EngineRequest(engine="ddg_news", query="whales")

    def requests_for(reply: HttpReply) -> int:
        steps, count = engine.steps(query), 1
        request = next(steps)
        try:
            while True:
                request = steps.send(reply if "vqd" in request.params else TOKEN)
                count += 1
        except (StopIteration, EngineError):
            return count

    good, bad = HttpReply(200, page_of("ddg_news")), HttpReply(403, b"")
    assert [requests_for(reply) for reply in (good, good, bad, good)] == [2, 1, 1, 2]


@pytest.mark.parametrize(
    ("country", "language", "kl"),
    [
        ("", "", "wt-wt"), ("gb", "", "uk-en"), ("ch", "fr", "ch-fr"), ("ch", "", "ch-de"),
        ("", "ja", "jp-jp"), ("jp", "ja", "jp-jp"), ("", "de", "de-de"), ("de", "en", "de-de"),
        ("tw", "zh", "tw-tzh"), ("", "zh", "cn-zh"), ("zz", "de", "wt-wt"), ("", "xx", "wt-wt"),
    ],
)  # fmt: skip
def test_region_of_duckduckgo(country, language, kl):
    """A pair that it does not have is the country's main one."""
    assert ddg_region(country, language) == kl


def test_every_engine_has_its_facts_and_terms():
    """The table in the contracts and the one of the files name the same engines."""
    assert ENGINES.keys() == {*BY_NAME, "ddg"}
    assert all(facts.terms and facts.max_pages for facts in ENGINES.values())
