"""Fetching of single pages, and addresses that are never connected to."""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path

import httpcore
import pytest

from searchbus_upstream import (
    GuardedBackend,
    HttpReply,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
)
from searchbus_upstream.addresses import is_public_address
from searchbus_web.extraction.fetching import Fetcher, FetchError, Robots
from searchbus_web.extraction.reading import answer as answer_of

FIXTURES = Path(__file__).parents[1] / "fixtures"
HTML = {"content-type": "text/html; charset=utf-8"}


class FakeClient:
    """Replies by URL; keeps how many requests of a host were under way."""

    def __init__(self, pages: dict[str, HttpReply | Exception]) -> None:
        self.pages = pages
        self.sent: list[str] = []
        self.under_way = 0
        self.most_under_way = 0

    async def send(self, request, *, timeout_s, max_bytes):
        self.sent.append(request.url)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        found = self.pages[request.url]
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self):
        pass


def fetcher_of(pages, robots=None, routes=None) -> tuple[Fetcher, FakeClient]:
    fetcher = Fetcher(GuardedBackend(routes=routes), robots=robots)
    client = FakeClient(pages)
    fetcher._client = client
    return fetcher, client


async def status_of(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(url, timeout_s=60.0)
    return caught.value.status


async def test_redirects_are_followed_and_checked():
    """Relative ones too; the page has its last URL."""
    fetcher, client = fetcher_of({
        "http://a.org/1": HttpReply(301, b"", {"location": "/2"}),
        "http://a.org/2": HttpReply(302, b"", {"location": "https://b.org/3"}),
        "https://b.org/3": HttpReply(200, b"<p>x", HTML),
    })  # fmt: skip
    page = await fetcher.fetch("http://a.org/1", timeout_s=60.0)
    assert (page.url, page.body, page.media_type, page.charset) == (
        "https://b.org/3", b"<p>x", "text/html", "utf-8",
    )  # fmt: skip
    assert len(client.sent) == 3


async def test_public_page_redirects_to_no_host_of_the_allowlist():
    """Strangers would choose what is read there; a page of the allowlist may lead to another."""
    routes = {"*.corp.example": "10.0.0.7:80"}
    fetcher, client = fetcher_of({
        "http://a.org/1": HttpReply(302, b"", {"location": "http://wiki.corp.example/x"}),
        "http://b.corp.example/": HttpReply(302, b"", {"location": "http://wiki.corp.example/x"}),
        "http://wiki.corp.example/x": HttpReply(200, b"<p>x", HTML),
    }, routes=routes)  # fmt: skip
    assert await status_of(fetcher, "http://a.org/1") == "blocked_by_policy"
    assert client.sent == ["http://a.org/1"]
    page = await fetcher.fetch("http://b.corp.example/", timeout_s=60.0)
    assert page.url == "http://wiki.corp.example/x"


async def test_redirects_have_the_cookies_of_their_own_chain():
    """Some pages redirect to themselves until theirs comes back; the next caller's has none."""
    fetcher, client = fetcher_of({})
    chains = []

    async def send(request, *, timeout_s, max_bytes):
        chains.append(request.cookies)
        known = request.cookies.get("seen")
        request.cookies.set("seen", "yes", domain="a.org")
        return HttpReply(200, b"<p>x", HTML) if known else HttpReply(302, b"", {"location": "/"})

    client.send = send
    for _ in range(2):
        await fetcher.fetch("https://a.org/", timeout_s=60.0)
    assert len(chains) == 4


@pytest.mark.parametrize(
    ("location", "status"),
    [
        ("http://a.org/", "blocked_by_policy"),  # from https to http
        ("HTTP://a.org/", "blocked_by_policy"),
        ("https://a.org/" + "x" * 5000, "invalid_url"),
        ("https://127.0.0.1/", "blocked_by_policy"),
        ("file:///etc/passwd", "blocked_by_policy"),
        ("https://a.org:6379/", "blocked_by_policy"),
        ("https://[::1", "invalid_url"),
        ("https://a.org/", "too_many_redirects"),
    ],
)
async def test_redirect_is_refused(location, status):
    """The target is not requested."""
    fetcher, client = fetcher_of({"https://a.org/": HttpReply(302, b"", {"location": location})})
    assert await status_of(fetcher, "https://a.org/") == status
    assert set(client.sent) == {"https://a.org/"}


def test_https_in_capitals_leads_to_no_http_either():
    """Neither by a redirect nor by the scripts of a page."""
    fetcher, _ = fetcher_of({})
    for url, target in (("HTTPS://a.org/", "http://a.org/"), ("https://a.org/", "Http://b.org/")):
        with pytest.raises(FetchError, match="from https to http"):
            fetcher.check_step(url, target)
    fetcher.check_step("Http://a.org/", "http://b.org/")


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (HttpReply(404, b"gone", HTML), "http_404"),
        (HttpReply(200, b"", {"cf-mitigated": "challenge"}), "challenge"),
        (HttpReply(503, b"<title>Just a moment...</title>", HTML), "challenge"),
        (HttpReply(200, b"\x89PNG", {"content-type": "image/png"}), "unsupported_type"),
        (UpstreamTimeoutError("x"), "timeout"),
        (UpstreamUnreachableError("x", "dns"), "dns"),
        (UpstreamUnreachableError("x", "tls"), "tls"),
        (UpstreamUnreachableError("x", "address"), "blocked_by_policy"),
        (UpstreamUnreachableError("x", "too_large"), "too_large"),
        (UpstreamUnreachableError("ConnectError"), "unreachable"),
    ],
)
async def test_each_failure_has_its_status(reply, status):
    """The README lists them."""
    fetcher, _ = fetcher_of({"https://a.org/": reply})
    assert await status_of(fetcher, "https://a.org/") == status


@pytest.mark.parametrize(
    ("content_type", "body", "media_type"),
    [
        ("", b" <!DOCTYPE html><p>", "text/html"),
        ("application/octet-stream", b"%PDF-1.4", "application/pdf"),
        ("text/html", b"%PDF-1.4", "application/pdf"),
        ("application/problem+json", b"{}", "application/problem+json"),
        ("Text/Plain; charset='latin1'", b"x", "text/plain"),
    ],
)
async def test_media_type_is_corrected_by_the_first_bytes(content_type, body, media_type):
    """Where they are unambiguous."""
    fetcher, _ = fetcher_of(
        {"https://a.org/": HttpReply(200, body, {"content-type": content_type})}
    )
    assert (await fetcher.fetch("https://a.org/", timeout_s=60.0)).media_type == media_type


async def test_two_requests_of_a_host_at_a_time():
    """However many hosts there are; the table of hosts does not grow."""
    pages = {f"https://a.org/{n}": HttpReply(200, b"<p>x", HTML) for n in range(9)}
    fetcher, client = fetcher_of(pages)
    await asyncio.gather(*(fetcher.fetch(url, timeout_s=60.0) for url in pages))
    assert client.most_under_way == 2
    assert len(fetcher._hosts) == 0


async def test_robots_forbid_and_deadlines_pass_without_a_request():
    """The page is not requested."""

    class Robots:
        async def allows(self, url, left_s, *, caller=""):
            return "private" not in url

    fetcher, client = fetcher_of({"https://a.org/": HttpReply(200, b"<p>x", HTML)}, robots=Robots())
    assert await status_of(fetcher, "https://a.org/private") == "robots"
    with pytest.raises(FetchError, match="deadline passed"):
        await fetcher.fetch("https://a.org/", timeout_s=0.0)
    assert client.sent == []


async def test_allowlisted_hosts_may_be_private():
    """But only over http and https."""
    routes = {"wiki.corp": "10.0.0.7:80"}
    fetcher, client = fetcher_of(
        {"http://wiki.corp:81/": HttpReply(200, b"<p>x", HTML)}, routes=routes
    )
    assert (await fetcher.fetch("http://wiki.corp:81/", timeout_s=60.0)).body == b"<p>x"
    assert await status_of(fetcher, "ftp://wiki.corp/") == "blocked_by_policy"
    assert len(client.sent) == 1


class Recorder(httpcore.AsyncNetworkBackend):
    """Records what would be opened, and opens nothing."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        self.opened.append((host, port))
        raise httpcore.ConnectError("recorded")


def guarded(*answers: list[str]) -> tuple[GuardedBackend, Recorder, list[str]]:
    """A guard over a fake resolver: call n gets answer n, later calls the last one."""
    recorder, resolved = Recorder(), []

    async def resolver(host: str, port: int):
        resolved.append(host)
        answer = answers[min(len(resolved), len(answers)) - 1]
        return [ipaddress.ip_address(address) for address in answer]

    return GuardedBackend(resolver=resolver, backend=recorder), recorder, resolved


async def opens_nothing_private(urls: list[str]) -> None:
    """Whatever a name resolves to: the resolver answers as a naive one would."""
    for answer in (
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["93.184.216.34", "10.0.0.1"],
        ["::ffff:10.0.0.1"],
    ):
        backend, recorder, _ = guarded(answer)
        fetcher = Fetcher(backend)
        for url in urls:
            status = await status_of(fetcher, url)
            assert status in ("blocked_by_policy", "invalid_url", "dns", "unreachable"), url
        for host, _ in recorder.opened:
            assert is_public_address(ipaddress.ip_address(host)), host
        await fetcher.close()


async def test_ssrf_urls_open_no_connection():
    """Spellings of internal addresses, redirecting names, other schemes."""
    urls = (FIXTURES / "ssrf_urls.txt").read_text().splitlines()
    assert len(urls) > 50
    await opens_nothing_private(urls)


async def test_public_list_of_ssrf_urls_opens_no_connection(reference):
    """A list of payloads that security testers use."""
    urls = (reference / "corpora" / "ssrf" / "urls.txt").read_text().splitlines()
    assert len(urls) > 200
    await opens_nothing_private(urls)


async def test_dns_rebinding_has_no_effect():
    """The name is resolved once; the checked address is the one connected to."""
    backend, recorder, resolved = guarded(["93.184.216.34"], ["127.0.0.1"])
    fetcher = Fetcher(backend)
    assert await status_of(fetcher, "http://rebind.example.com/") == "unreachable"
    assert recorder.opened == [("93.184.216.34", 80)]
    assert resolved == ["rebind.example.com"]
    assert await status_of(fetcher, "http://rebind.example.com/") == "blocked_by_policy"
    assert len(recorder.opened) == 1
    await fetcher.close()


RULES = b"User-agent: *\nDisallow: /private/\n\nUser-agent: searchbus\nDisallow: /bots/\n"


class InlineReader:
    """Reads the file in this process."""

    def prepare(self):
        pass

    async def obey(self, question, *, caller=""):
        return answer_of(question)


class RobotsClient:
    """Replies to every request alike."""

    def __init__(self, result: HttpReply | Exception) -> None:
        self.result = result
        self.sent: list[str] = []

    async def send(self, request, *, timeout_s, max_bytes):
        self.sent.append(request.url)
        await asyncio.sleep(0)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    async def close(self):
        pass


@pytest.fixture
def now_s():
    return [0.0]


def robots_of(result, now_s) -> tuple[Robots, RobotsClient]:
    client = RobotsClient(result)
    return Robots(client, InlineReader(), clock=lambda: now_s[0]), client


async def test_rules_for_our_name_count(now_s):
    """They replace those for all robots."""
    robots, _ = robots_of(HttpReply(200, RULES), now_s)
    assert await robots.allows("https://a.org/private/x", 5)
    assert not await robots.allows("https://a.org/bots/x", 5)


async def test_one_request_per_origin_and_day(now_s):
    """Also for pages that are requested at the same time."""
    robots, client = robots_of(HttpReply(200, RULES), now_s)
    await asyncio.gather(*(robots.allows(f"https://a.org/{n}", 5) for n in range(9)))
    assert client.sent == ["https://a.org/robots.txt"]
    await robots.allows("http://a.org/", 5)
    assert client.sent[1:] == ["http://a.org/robots.txt"]
    now_s[0] += 23 * 3600
    await robots.allows("https://a.org/", 5)
    now_s[0] += 2 * 3600
    await robots.allows("https://a.org/", 5)
    assert len(client.sent) == 3
    assert len(robots._locks) == 0


@pytest.mark.parametrize(
    ("result", "allowed", "kept_s"),
    [
        (HttpReply(404, b""), True, 86_000),
        (HttpReply(403, b""), True, 86_000),
        (HttpReply(500, b""), False, 290),
        (HttpReply(200, RULES, truncated=True), False, 290),
        (UpstreamTimeoutError("x"), False, 290),
        (UpstreamUnreachableError("x"), True, 290),
        (UpstreamUnreachableError("x", "encoding"), False, 290),
        (UpstreamUnreachableError("x", "encoding", 200), False, 290),
        (UpstreamUnreachableError("x", "encoding", 404), True, 86_000),
    ],
)
async def test_missing_and_unreachable_rules(now_s, result, allowed, kept_s):
    """RFC 9309: 4xx allows, 5xx and timeouts forbid, for a shorter time; so do rules that are there
    and cannot be read."""
    robots, client = robots_of(result, now_s)
    for _ in range(2):
        assert await robots.allows("https://a.org/x", 5) is allowed
        now_s[0] += kept_s
    assert len(client.sent) == 1
    now_s[0] += kept_s
    await robots.allows("https://a.org/x", 5)
    assert len(client.sent) == 2


@pytest.mark.parametrize(
    ("location", "allowed"),
    [("https://b.org/r", False), ("/r", True), ("http://10.0.0.1/r", True), ("http://[", True)],
)
async def test_rules_are_followed_behind_redirects(now_s, location, allowed):
    """RFC 9309, 2.3.1.2: those count that five redirects lead to; without any all is allowed."""
    robots, client = robots_of(None, now_s)

    async def send(request, *, timeout_s, max_bytes):
        client.sent.append(request.url)
        if request.url == "https://b.org/r":
            return HttpReply(200, b"User-agent: *\nDisallow: /")
        return HttpReply(301, b"", {"location": location})

    client.send = send
    assert await robots.allows("https://a.org/x", 5) is allowed
    assert len(client.sent) == {"https://b.org/r": 2, "/r": 6}.get(location, 1)


async def test_a_caller_with_little_time_does_not_close_a_site_to_the_others(now_s):
    """Its robots.txt did not come within the caller's time, which says nothing about the site."""
    robots, client = robots_of(UpstreamTimeoutError("x"), now_s)
    with pytest.raises(FetchError, match="deadline") as caught:
        await robots.allows("https://a.org/x", 0.2)
    assert caught.value.status == "timeout"
    client.result = HttpReply(404, b"")
    assert await robots.allows("https://a.org/x", 5)


async def test_page_that_was_cut_off_is_no_whole_page():
    """The connection broke in the middle of it."""
    page = HttpReply(200, b"<p>The first half", HTML, truncated=True)
    fetcher, _ = fetcher_of({"http://a.org/": page})
    assert await status_of(fetcher, "http://a.org/") == "unreachable"


async def test_robots_redirect_does_not_lead_into_the_allowlist(now_s):
    """A stranger's site would choose what is asked of the operator's hosts."""
    client = RobotsClient(HttpReply(302, b"", {"location": "http://wiki.example.com/delete?id=1"}))
    robots = Robots(
        client, InlineReader(), allows_host=lambda host: host == "wiki.example.com",
        clock=lambda: now_s[0],
    )  # fmt: skip
    assert await robots.allows("https://a.org/x", 5)
    assert client.sent == ["https://a.org/robots.txt"]
