"""One search over several pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.web import WebResult, WebSearchRequest
from searchbus_ddg.egress import Egress
from searchbus_ddg.outcome import EngineError, Outcome, ResultPage
from searchbus_ddg.search import PageClient, ScrapedSearch, quote_bangs
from searchbus_upstream import (
    HttpReply,
    HttpRequest,
    Pace,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
)


def page(*numbers: int, more: bool = True) -> ResultPage:
    rows = tuple(WebResult(title=f"t{n}", url=f"https://a.org/{n}") for n in numbers)
    return ResultPage(Outcome.OK, rows, {"s": str(numbers[-1])} if more and numbers else {})


class FakePages:
    """Replies with the given pages or errors, in turn."""

    def __init__(self, *outcomes: ResultPage | EngineError) -> None:
        self.outcomes = list(outcomes)
        self.endpoints: list[str] = []

    async def first_page(self, endpoint, request, timeout_s):
        return self._next(endpoint)

    async def next_page(self, endpoint, form, request, timeout_s):
        assert form
        return self._next(endpoint)

    def _next(self, endpoint: str) -> ResultPage:
        self.endpoints.append(endpoint)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, EngineError):
            raise outcome
        return outcome


async def run(limit: int, *outcomes, timeout_s: float = 60.0):
    """(rows' numbers, note, endpoints) of a search."""
    pages = FakePages(*outcomes)
    search = ScrapedSearch(Egress("test", None, Pace(0.0)), pages)
    found = await search.run(WebSearchRequest(query="q", limit=limit), "caller", timeout_s)
    return [row.url.rpartition("/")[2] for row in found.rows], found.note, pages.endpoints


async def test_pages_are_fetched_until_there_are_enough_rows():
    """Rows that were already there are not counted again."""
    rows, note, endpoints = await run(5, page(1, 2, 3), page(3, 4), page(5, 6), page(7))
    assert (rows, note, endpoints) == (["1", "2", "3", "4", "5"], None, ["html"] * 3)


@pytest.mark.parametrize(
    "pages",
    [[page(1, 2, more=False)], [page(1), page(1, 2), page(1, 2)], [ResultPage(Outcome.EMPTY)]],
)
async def test_search_ends_at_the_last_page(pages):
    """Without a next form, or where a page adds nothing."""
    rows, note, endpoints = await run(30, *pages)
    assert note is None
    assert len(endpoints) == len(pages)
    assert rows == ["1", "2"][: len(rows)]


async def test_number_of_pages_is_limited():
    """Whatever the site offers."""
    rows, _, endpoints = await run(30, *(page(n) for n in range(9)))
    assert (len(rows), len(endpoints)) == (4, 4)


async def test_failure_of_a_later_page_shortens_the_list():
    """A note says why."""
    error = EngineError(Outcome.TIMEOUT, "no answer within 5.0 s")
    rows, note, _ = await run(30, page(1, 2), error)
    assert rows == ["1", "2"]
    assert note == "Further results could not be fetched: no answer within 5.0 s."


async def test_lite_is_used_where_html_cannot_be_read():
    """And for its next pages."""
    rows, _, endpoints = await run(
        3, EngineError(Outcome.UNKNOWN_MARKUP, "new"), page(1, 2), page(3)
    )
    assert (rows, endpoints) == (["1", "2", "3"], ["html", "lite", "lite"])


@pytest.mark.parametrize(
    ("errors", "code", "retryable", "said"),
    [
        ([(Outcome.CHALLENGE, "x")], "upstream_blocked", True, "does not mean"),
        ([(Outcome.BLANK, "x")], "upstream_blocked", True, "another search tool"),
        ([(Outcome.RATE_LIMITED, "x")], "upstream_limited", True, "180 seconds"),
        ([(Outcome.TIMEOUT, "x")], "upstream_failed", True, "in time"),
        ([(Outcome.UPSTREAM_ERROR, "HTTP 500")] * 2, "upstream_failed", True, "HTTP 500"),
        ([(Outcome.UNKNOWN_MARKUP, "new")] * 2, "upstream_failed", False, "another search tool"),
        ([(Outcome.UNKNOWN_MARKUP, "new"), (Outcome.CHALLENGE, "x")], "upstream_blocked", True,
         "does not mean"),
    ],
)  # fmt: skip
async def test_failure_of_the_first_page_has_its_code(errors, code, retryable, said):
    """It never reads as if there were no results."""
    with pytest.raises(Fault) as caught:
        await run(10, *(EngineError(outcome, detail) for outcome, detail in errors))
    assert (caught.value.code, caught.value.failure.retryable) == (code, retryable)
    assert said in caught.value.failure.message


async def test_no_time_left_is_an_error():
    """Nothing is sent."""
    with pytest.raises(Fault) as caught:
        await run(10, page(1), timeout_s=0.0)
    assert caught.value.code == "deadline_exceeded"


RESULTS = (Path(__file__).parent / "fixtures" / "results.html").read_bytes()


class FakeClient:
    """Returns a reply or raises an error; keeps the requests."""

    def __init__(self, outcome: HttpReply | Exception) -> None:
        self.outcome = outcome
        self.requests: list[HttpRequest] = []

    async def send(self, request: HttpRequest, *, timeout_s: float, max_bytes: int) -> HttpReply:
        self.requests.append(request)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def close(self) -> None:
        pass


def pages_of(outcome: HttpReply | Exception) -> tuple[PageClient, FakeClient]:
    client = FakeClient(outcome)
    pages = PageClient(client, html_url="https://html.ddg.example/html/", lite_url="https://lite/")
    return pages, client


async def test_first_page_is_requested_as_a_browser_does():
    """Query, region, time and safe search in form and cookie."""
    pages, client = pages_of(HttpReply(200, RESULTS))
    request = WebSearchRequest(query="!g cats", region="de-de", time="w", safe="strict")
    page = await pages.first_page("html", request, 5.0)
    (sent,) = client.requests
    assert page.outcome is Outcome.OK
    assert (sent.method, sent.url) == ("POST", "https://html.ddg.example/html/")
    assert sent.form == {"q": "'!g' cats", "b": "", "kl": "de-de", "df": "w", "kp": "1"}
    assert sent.headers["Cookie"] == "kl=de-de; df=w"
    assert sent.headers["Accept-Language"] == "de-DE,de;q=0.9,en;q=0.5"
    assert sent.headers["Origin"] == "https://html.ddg.example"


async def test_lite_has_its_own_address():
    """The pages behind its first one, too."""
    pages, client = pages_of(HttpReply(200, RESULTS))
    request = WebSearchRequest(query="cats")
    page = await pages.first_page("lite", request, 5.0)
    await pages.next_page("lite", page.next_form, request, 5.0)
    assert [sent.url for sent in client.requests] == ["https://lite/"] * 2


async def test_next_page_sends_the_form_of_the_page_before():
    """Unchanged, with the same User-Agent: the token is bound to it."""
    pages, client = pages_of(HttpReply(200, RESULTS))
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
        (UpstreamTimeoutError("no answer within 5.0 s"), Outcome.TIMEOUT, "no answer"),
        (UpstreamUnreachableError("ConnectError"), Outcome.UPSTREAM_ERROR, "ConnectError"),
        (HttpReply(303, b""), Outcome.UPSTREAM_ERROR, "redirects"),
        (HttpReply(500, b"oops"), Outcome.UPSTREAM_ERROR, "HTTP 500"),
        (HttpReply(202, b""), Outcome.BLANK, "blank page"),
        (HttpReply(200, b"<p>new", truncated=True), Outcome.UNKNOWN_MARKUP, "cut off"),
        (HttpReply(200, b"<p>new"), Outcome.UNKNOWN_MARKUP, "markup has changed"),
        (HttpReply(202, b"<form id=challenge-form>"), Outcome.CHALLENGE, "not a bot"),
    ],
)
async def test_other_replies_are_errors(result, outcome, detail):
    """With the outcome, and a detail for messages."""
    pages, _ = pages_of(result)
    with pytest.raises(EngineError) as caught:
        await pages.first_page("lite", WebSearchRequest(query="cats"), 60.0)
    assert caught.value.outcome is outcome
    assert detail in caught.value.detail


async def test_a_timeout_that_is_the_callers_is_not_the_engines():
    """Others, who wait for the same search, may have more time."""
    pages, _ = pages_of(UpstreamTimeoutError("no answer within 5.0 s"))
    with pytest.raises(Fault) as caught:
        await pages.first_page("html", WebSearchRequest(query="cats"), 5.0)
    assert caught.value.code == "deadline_exceeded"


async def test_retry_after_is_kept():
    """For the cooldown of the address."""
    pages, _ = pages_of(HttpReply(429, b"", {"retry-after": "7"}))
    with pytest.raises(EngineError) as caught:
        await pages.first_page("html", WebSearchRequest(query="cats"), 5.0)
    assert (caught.value.outcome, caught.value.retry_after_s) == (Outcome.RATE_LIMITED, 7.0)


def test_bangs_are_quoted():
    """Otherwise the search would be redirected to another site."""
    assert quote_bangs("!g cats") == "'!g' cats"
    assert quote_bangs("cats !w dogs") == "cats '!w' dogs"
    assert quote_bangs("wow! really!? a!b ! !!") == "'wow!' really!? a!b ! !!"
