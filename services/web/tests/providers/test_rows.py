"""Replies with a status of success and a wrong shape: an error is never an empty result."""

from __future__ import annotations

import json

import pytest

from searchbus_contracts import Actor, Fault
from searchbus_upstream import Reply
from searchbus_web.providers import brave, searxng, tavily
from searchbus_web.providers.account import Account
from searchbus_web.providers.base import Query
from searchbus_web.providers.rows import read_rows

ROW = {"url": "https://a.org/", "title": "A"}
SHAPES = [
    b"", b"null", b"[]", b'"text"', b"7", b"{}", b"<html>", b'{"results"', b'{"results": null}',
    b'{"results": "none"}', b'{"results": {}}', b'{"results": [null]}', b'{"results": ["row"]}',
    b'{"results": [{"title": "A"}]}', b'{"results": [{"url": null}, {"url": 7}]}',
    b'{"results": [{"url": "ftp://a.org/"}, {"url": ""}, {"url": "javascript:alert(1)"}]}',
    b"[" * 100_000,
]  # fmt: skip
TOLD = [
    ({"detail": {"error": "quota"}}, "quota_exhausted", False),
    ({"detail": {"error": "You have no credits left."}}, "quota_exhausted", False),
    ({"error": {"code": "rate_limited", "message": "Slow down"}}, "upstream_limited", True),
    ({"error": "Too many requests"}, "upstream_limited", True),
    ({"detail": [{"loc": ["a", 1], "msg": "is wrong"}]}, "upstream_failed", False),
    ({"message": "Internal error"}, "upstream_failed", False),
]


@pytest.fixture
def ask(fake_client, monkeypatch):
    """Search with a provider that gives one reply always."""

    async def ask(provider: str, body: bytes, topic: str = "general"):
        module, kind = {
            "tavily": (tavily, tavily.Tavily),
            "brave": (brave, brave.Brave),
            "searxng": (searxng, searxng.SearXNG),
        }[provider]
        client = fake_client(*[Reply(200, body)] * 3)
        account = Account(provider.title(), client, ["key"], fault_of=module.fault_of)
        query = Query("whales", 10, topic=topic)
        found = kind(account, "https://x.example")
        return await found.search(query, actor=Actor(subject="a"), timeout_s=0.2)

    return ask


@pytest.mark.parametrize("topic", ["general", "news"])
@pytest.mark.parametrize("provider", ["tavily", "brave", "searxng"])
@pytest.mark.parametrize("body", SHAPES, ids=lambda body: body[:30].decode())
async def test_reply_without_readable_rows_is_a_failure(ask, provider, body, topic):
    """It is not retried, since the next one has the same shape."""
    with pytest.raises(Fault) as caught:
        await ask(provider, body, topic)
    assert (caught.value.code, caught.value.failure.retryable) == ("upstream_failed", False)
    assert "cannot be read. Use another search tool." in caught.value.failure.message


@pytest.mark.parametrize("body", [b'{"web": {}}', b'{"web": {"results": null}}', b'{"web": []}'])
async def test_rows_of_the_web_may_be_wrong_as_well(ask, body):
    """Brave has them one level lower."""
    with pytest.raises(Fault, match="cannot be read"):
        await ask("brave", body)


@pytest.mark.parametrize("provider", ["tavily", "brave", "searxng"])
@pytest.mark.parametrize(("told", "code", "retryable"), TOLD)
async def test_failure_told_in_a_success_has_its_code(ask, provider, told, code, retryable):
    """With the provider's own words."""
    with pytest.raises(Fault) as caught:
        await ask(provider, json.dumps(told).encode())
    assert (caught.value.code, caught.value.failure.retryable) == (code, retryable)


@pytest.mark.parametrize("provider", ["tavily", "searxng"])
async def test_failure_beside_an_empty_list_is_a_failure(ask, provider):
    """Beside rows it is none."""
    with pytest.raises(Fault, match="used up: quota"):
        await ask(provider, b'{"results": [], "error": "quota"}')
    body = json.dumps({"results": [ROW], "error": "quota"}).encode()
    assert len((await ask(provider, body)).results) == 1


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("tavily", b'{"results": []}'),
        ("searxng", b'{"results": [], "unresponsive_engines": []}'),
        ("brave", b'{"type": "search", "query": {"original": "q"}}'),
        ("brave", b'{"results": []}'),
        ("brave", b'{"web": {"results": []}}'),
    ],
)
async def test_list_without_rows_is_empty(ask, provider, body):
    """Brave leaves out the list of a search that finds nothing."""
    assert (await ask(provider, body)).results == ()


@pytest.mark.parametrize("provider", ["tavily", "brave", "searxng"])
@pytest.mark.parametrize(
    "broken", [None, "row", [], {}, {"url": None}, {"url": 7}, {"url": "/a"}, {**ROW, "title": {}}]
)
async def test_malformed_row_loses_itself_only(ask, provider, broken, caplog):
    """It is logged; odd fields beside the rows do not matter."""
    rows = [{"url": f"https://a{n}.org/", "title": "A"} for n in range(9)]
    rows.insert(4, broken)
    body = {"results": rows, "usage": "?", "request_id": 7, "unresponsive_engines": "?"}
    found = await ask(provider, json.dumps(body).encode(), "news")
    assert len(found.results) == 9
    assert "1 of 10 rows cannot be read" in caplog.text


@pytest.mark.parametrize("provider", ["tavily", "brave", "searxng"])
async def test_nan_and_broken_characters_cost_no_row(ask, provider):
    """Servers written in Python send NaN."""
    row = b'{"url": "https://a.org/", "title": "a \\ud800 b", "score": NaN}'
    found = await ask(provider, b'{"results": [' + row + b"]}", "news")
    assert found.results[0].title == "a ? b"


async def test_page_texts_have_the_same_rules(fake_client):
    """Failed pages that cannot be read have no reason."""
    client = fake_client({}, {"results": [], "failed_results": [None, {"url": "https://a.org/"}]})
    account = Account("Tavily", client, ["key"], fault_of=tavily.fault_of)
    provider = tavily.Tavily(account, "https://x.example")
    with pytest.raises(Fault, match="cannot be read"):
        await provider.extract(["https://a.org/"], timeout_s=5.0)
    (page,) = await provider.extract(["https://a.org/"], timeout_s=5.0)
    assert page.text is None


def test_no_rows_are_no_failure():
    """Nothing was lost."""
    assert read_rows("X", [], tavily._Row) == []
