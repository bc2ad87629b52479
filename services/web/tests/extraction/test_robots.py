"""robots.txt: which pages it allows, and how long it is kept."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_upstream import Reply, UpstreamTimeout, UpstreamUnreachable
from searchbus_web.extraction.reading import answer
from searchbus_web.extraction.robots import Robots

RULES = b"User-agent: *\nDisallow: /private/\n\nUser-agent: searchbus\nDisallow: /bots/\n"


class InlineReader:
    """Reads the file in this process."""

    async def allows(self, question, *, caller=""):
        return answer(question).allowed


class FakeClient:
    """Replies to every request alike."""

    def __init__(self, result: Reply | Exception) -> None:
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


def robots_of(result, now_s) -> tuple[Robots, FakeClient]:
    client = FakeClient(result)
    return Robots(client, InlineReader(), "searchbus/0.1", clock=lambda: now_s[0]), client


async def test_rules_for_our_name_count(now_s):
    """They replace those for all robots."""
    robots, _ = robots_of(Reply(200, RULES), now_s)
    assert await robots.allows("https://a.org/private/x", 5)
    assert not await robots.allows("https://a.org/bots/x", 5)


async def test_one_request_per_origin_and_day(now_s):
    """Also for pages that are requested at the same time."""
    robots, client = robots_of(Reply(200, RULES), now_s)
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
        (Reply(404, b""), True, 86_000),
        (Reply(403, b""), True, 86_000),
        (Reply(500, b""), False, 290),
        (UpstreamTimeout("x"), False, 290),
        (UpstreamUnreachable("x"), True, 290),
    ],
)
async def test_missing_and_unreachable_rules(now_s, result, allowed, kept_s):
    """RFC 9309: 4xx allows, 5xx and timeouts forbid, for a shorter time."""
    robots, client = robots_of(result, now_s)
    for _ in range(2):
        assert await robots.allows("https://a.org/x", 5) is allowed
        now_s[0] += kept_s
    assert len(client.sent) == 1
    now_s[0] += kept_s
    await robots.allows("https://a.org/x", 5)
    assert len(client.sent) == 2
