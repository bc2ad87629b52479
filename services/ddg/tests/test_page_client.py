"""Requests for result pages, and what their replies mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from searchbus_contracts.web import WebSearchRequest
from searchbus_ddg.outcome import DuckDuckGoError, Outcome
from searchbus_ddg.page_client import PageClient, quote_bangs
from searchbus_upstream import Reply, Request, UpstreamTimeout, UpstreamUnreachable

RESULTS = (Path(__file__).parent / "fixtures" / "results.html").read_bytes()


class FakeClient:
    """Returns a reply or raises an error; keeps the requests."""

    def __init__(self, outcome: Reply | Exception) -> None:
        self.outcome = outcome
        self.requests: list[Request] = []

    async def send(self, request: Request, *, timeout_s: float, max_bytes: int) -> Reply:
        self.requests.append(request)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def close(self) -> None:
        pass


def pages_of(outcome: Reply | Exception) -> tuple[PageClient, FakeClient]:
    client = FakeClient(outcome)
    pages = PageClient(client, html_url="https://html.ddg.example/html/", lite_url="https://lite/")
    return pages, client


async def test_first_page_is_requested_as_a_browser_does():
    """Query, region, time and safe search in form and cookie."""
    pages, client = pages_of(Reply(200, RESULTS))
    request = WebSearchRequest(query="!g cats", region="de-de", time="w", safe="strict")
    page = await pages.first_page("html", request, 5.0)
    (sent,) = client.requests
    assert page.outcome is Outcome.OK
    assert (sent.method, sent.url) == ("POST", "https://html.ddg.example/html/")
    assert sent.form == {"q": "'!g' cats", "b": "", "kl": "de-de", "df": "w", "kp": "1"}
    assert sent.headers["Cookie"] == "kl=de-de; df=w"
    assert sent.headers["Accept-Language"] == "de-DE,de;q=0.9,en;q=0.5"
    assert sent.headers["Origin"] == "https://html.ddg.example"


async def test_next_page_sends_the_form_of_the_page_before():
    """Unchanged, with the same User-Agent: the token is bound to it."""
    pages, client = pages_of(Reply(200, RESULTS))
    request = WebSearchRequest(query="cats")
    page = await pages.first_page("html", request, 5.0)
    await pages.next_page("html", page.next_form, request, 5.0)
    first, second = client.requests
    assert second.form == page.next_form
    assert first.headers == second.headers
    assert first.headers["Accept-Language"] == "en-US,en;q=0.9"


@pytest.mark.parametrize(
    ("result", "outcome", "detail"),
    [
        (UpstreamTimeout("no answer within 5.0 s"), Outcome.TIMEOUT, "no answer"),
        (UpstreamUnreachable("ConnectError"), Outcome.UPSTREAM_ERROR, "ConnectError"),
        (Reply(303, b""), Outcome.UPSTREAM_ERROR, "redirects"),
        (Reply(500, b"oops"), Outcome.UPSTREAM_ERROR, "HTTP 500"),
        (Reply(202, b""), Outcome.BLANK, "blank page"),
        (Reply(200, b"<p>new", truncated=True), Outcome.UNKNOWN_MARKUP, "cut off"),
        (Reply(200, b"<p>new"), Outcome.UNKNOWN_MARKUP, "markup has changed"),
        (Reply(202, b"anomaly.js"), Outcome.CHALLENGE, "not a bot"),
    ],
)
async def test_other_replies_are_errors(result, outcome, detail):
    """With the outcome, and a detail for messages."""
    pages, _ = pages_of(result)
    with pytest.raises(DuckDuckGoError) as caught:
        await pages.first_page("lite", WebSearchRequest(query="cats"), 5.0)
    assert caught.value.outcome is outcome
    assert detail in caught.value.detail


async def test_retry_after_is_kept():
    """For the cooldown of the address."""
    pages, _ = pages_of(Reply(429, b"", {"retry-after": "7"}))
    with pytest.raises(DuckDuckGoError) as caught:
        await pages.first_page("html", WebSearchRequest(query="cats"), 5.0)
    assert (caught.value.outcome, caught.value.retry_after_s) == (Outcome.RATE_LIMITED, 7.0)


def test_bangs_are_quoted():
    """Otherwise the search would be redirected to another site."""
    assert quote_bangs("!g cats") == "'!g' cats"
    assert quote_bangs("cats !w dogs") == "cats '!w' dogs"
    assert quote_bangs("wow! really!? a!b ! !!") == "'wow!' really!? a!b ! !!"
