"""Pages that need JavaScript, with the service browser and without it."""

from __future__ import annotations

from functools import partial

import pytest

from searchbus_bus import ActorSigner, ActorVerifier, Call, Worker, endpoint, new_actor_keys
from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.web import MAX_RENDER_BYTES, RenderReply, RenderRequest
from searchbus_web.extraction import scripts as module
from searchbus_web.extraction.fetching import USER_AGENT
from searchbus_web.extraction.reading import PageBytes, read_page

PAGE = "http://app.example.org/scripted"
TEXT = "<article><h1>Whales</h1><p>" + "Their songs are written by a script of this page. " * 20


class FakeBrowser:
    """The endpoint `browser.render`: replies, one after another; the last one for ever."""

    def __init__(self, *replies: RenderReply | Fault) -> None:
        self.replies = list(replies)
        self.requests: list[RenderRequest] = []
        self.actors: list[Actor] = []

    @endpoint
    async def render(self, call: Call, request: RenderRequest) -> RenderReply:
        self.requests.append(request)
        self.actors.append(call.actor)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Fault):
            raise reply
        return reply


async def started(web, *replies: RenderReply | Fault) -> FakeBrowser:
    browser = FakeBrowser(*replies)
    worker = Worker("browser")
    worker.add(browser)
    await web.broker.connect(name="browser").serve(worker)
    await web.start()
    return browser


async def test_the_text_is_that_of_the_scripts_and_says_so(web):
    """The service gets the page as it was fetched; ordinary pages are not sent to it."""
    browser = await started(web, RenderReply(html=TEXT, url=f"{PAGE}#/whales"))
    item, other = await web.extract(PAGE, "/article")
    assert (item["status"], other["status"]) == ("ok", "ok")
    assert "written by a script" in item["content"]
    assert item["content"].endswith("[This text is as the scripts of the page left it.]")
    assert "scripts of the page" not in other["content"]
    (request,) = browser.requests
    assert (request.url, request.user_agent) == (PAGE, USER_AGENT)
    assert b'id="root"' in request.body
    assert request.content_type == "text/html; charset=utf-8"


async def test_scripts_are_run_for_the_caller_of_the_page(web):
    """By whom the service counts its places; no role of theirs is passed on."""
    browser = await started(web, RenderReply(html=TEXT, url=PAGE))
    await web.extract(PAGE)
    assert browser.actors == [Actor(subject="test")]


async def test_scripts_are_run_for_a_signed_caller_of_an_endpoint(web, monkeypatch):
    """A worker may pass on neither another caller nor one of any endpoint."""
    private, public = new_actor_keys()
    web.bus = web.broker.connect(name="edge", signer=ActorSigner(private))
    connect = partial(web.broker.connect, verifier=ActorVerifier(public))
    monkeypatch.setattr(web.broker, "connect", connect)
    browser = await started(web, RenderReply(html=TEXT, url=PAGE))
    (item,) = await web.extract(PAGE, endpoint="desk")
    assert "written by a script" in item["content"]
    assert browser.actors == [Actor(subject="test", endpoint="desk")]


async def test_read_page_gives_the_links_that_scripts_made(web):
    await started(web, RenderReply(html=f'{TEXT}</p><a href="/next">Next</a></article>', url=PAGE))
    answer = await web.call("read_page", toolset="pages", urls=[PAGE], links=True)
    (item,) = answer["items"]
    assert [link["url"] for link in item["links"]] == ["http://app.example.org/next"]
    assert "[This text is as the scripts" in item["content"]


async def test_a_limit_that_the_scripts_reached_is_in_the_note(web):
    await started(web, RenderReply(html=TEXT, url=PAGE, cut="seconds"))
    (item,) = await web.extract(PAGE)
    assert "a limit (seconds): text may be missing" in item["content"]


async def test_without_the_service_the_answer_says_that_nothing_runs_scripts(web):
    await web.start()
    (item,) = await web.extract(PAGE)
    assert "no worker here runs scripts" in item["content"]
    assert "You need to enable JavaScript" in item["content"]


@pytest.mark.parametrize("code", [ErrorCode.UPSTREAM_FAILED, ErrorCode.OVERLOADED])
async def test_a_failure_leaves_the_page_as_it_was_fetched(web, code):
    fault = Fault(code, "The page needs too much memory. Use another page.", retryable=False)
    browser = await started(web, fault)
    (item,) = await web.extract(PAGE)
    assert item["status"] == "ok"
    assert "[The page's scripts could not be run. The page needs" in item["content"]

    # The next caller's attempt is a new one.
    browser.replies = [RenderReply(html=TEXT, url=PAGE)]
    (item,) = await web.extract(PAGE)
    assert "written by a script" in item["content"]


async def test_a_text_that_was_cut_by_this_calls_deadline_is_not_kept_for_others(web):
    browser = await started(web, RenderReply(html=TEXT, url=PAGE, cut="deadline"))
    (item,) = await web.extract(PAGE)
    assert "written by a script" in item["content"]
    assert "[The time of this call was too short" in item["content"]
    browser.replies = [RenderReply(html=TEXT, url=PAGE)]
    (item,) = await web.extract(PAGE)
    assert "[This text is as the scripts" in item["content"]


async def test_scripts_leave_time_for_the_page_as_it_was_fetched(web):
    """A browser that is too slow, or has no place, costs no text that is there without it."""
    times_s = []

    class Slow:
        @endpoint
        async def render(self, call: Call, request: RenderRequest) -> RenderReply:
            times_s.append(call.remaining_s)
            return RenderReply(html=TEXT, url=PAGE)

    worker = Worker("browser")
    worker.add(Slow())
    await web.broker.connect(name="browser").serve(worker)
    await web.start()
    await web.call("web_extract_content", urls=[PAGE], timeout_s=1000)
    assert times_s[0] < 800


async def test_scripts_that_make_less_of_a_page_are_not_used(web):
    await started(web, RenderReply(html="<p>x", url=PAGE))
    (item,) = await web.extract(PAGE)
    assert "You need to enable JavaScript" in item["content"]


async def test_an_address_that_scripts_lead_to_is_fetched_by_the_rules_of_pages(web):
    """The guard, robots.txt, and a limit."""
    moved = RenderReply(moved_to="http://pages.example.org/article")
    browser = await started(web, moved)
    (item,) = await web.extract(PAGE)
    assert "Songs of whales" in item["content"]
    for target, status in (
        ("http://127.0.0.1:8080/", "blocked_by_policy"),
        ("file:///etc/passwd", "blocked_by_policy"),
        ("http://strict.example.org/private/x", "robots"),
        (PAGE, "too_many_redirects"),
    ):
        browser.replies = [RenderReply(moved_to=target)]
        (item,) = await web.extract(f"{PAGE}?{status}{len(target)}")
        assert (item["status"], item["content"]) == (status, "")


@pytest.mark.parametrize(
    ("html", "needs"),
    [
        ("<div id=root></div><script src=/a.js></script>", True),
        ("<p>Loading</p><script>start()</script>", True),
        ("<noscript>Please enable JavaScript</noscript>" + "<p>Menu and footer. " * 20, True),
        ("<noscript><b>This needs <i>javascript</i></b></noscript><p>Loading", True),
        ("<p>A short page", False),
        ("<p>A short page</p><script type='application/ld+json'>{}</script>", False),
        ("<p>" + "A page with text. " * 20 + "<script>count()</script>", False),
        ("<noscript>Enable JavaScript</noscript><p>" + "A page with text. " * 100, False),
        ("<noscript><img src=/pixel></noscript><p>" + "Some text of ours. " * 20, False),
    ],
)
def test_which_pages_need_their_scripts(html, needs):
    page = PageBytes(PAGE, f"<html><body>{html}</body></html>".encode(), "text/html")
    assert read_page(page).by_scripts is needs


async def test_a_page_too_large_for_the_service_is_not_sent(web, monkeypatch):
    browser = await started(web, RenderReply(html=TEXT, url=PAGE))
    monkeypatch.setattr(module, "MAX_RENDER_BYTES", 10)
    (item,) = await web.extract(PAGE)
    assert browser.requests == []
    assert "larger than" in item["content"]
    assert MAX_RENDER_BYTES > 2**20
