"""Limits at the edge: calls, HTTP requests, tools that cost money."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("secured", [{"call_rate_per_s": 0.01, "call_burst": 3}], indirect=True)
async def test_calls_of_one_caller_are_limited_and_the_others_are_not(secured):
    """isError with the time to wait; the list goes on."""
    token, other = secured.provider.token(), secured.provider.token(sub="bob")
    for _ in range(3):
        answer = await secured.result("tools/call", token, name="open_tool", arguments={})
        assert not answer["result"].get("isError")
    answer = await secured.result("tools/call", token, name="open_tool", arguments={})
    assert answer["result"]["structuredContent"]["error"]["code"] == "rate_limited"
    assert answer["result"]["structuredContent"]["error"]["retry_after_ms"] > 1000
    answer = await secured.result("tools/call", other, name="open_tool", arguments={})
    assert not answer["result"].get("isError")
    assert (await secured.post("tools/list", token)).status_code == 200


@pytest.mark.parametrize("secured", [{"call_rate_per_s": 0.01, "call_burst": 3}], indirect=True)
async def test_calls_of_all_interfaces_count_together(secured):
    """Whoever changes the interface does not get more calls."""
    token = secured.provider.token()
    headers = {"Authorization": f"Bearer {token}"}

    async def plain():
        return await secured.http.post("/api/v1/tools/open_tool", json={}, headers=headers)

    assert (await plain()).status_code == 200
    for _ in range(2):
        answer = await secured.result("tools/call", token, name="open_tool", arguments={})
        assert not answer["result"].get("isError")
    refused = await plain()
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert int(refused.headers["retry-after"]) >= 1
    answer = await secured.result("tools/call", token, name="open_tool", arguments={})
    assert answer["result"]["structuredContent"]["error"]["code"] == "rate_limited"


@pytest.mark.parametrize("secured", [{"abuse_rate_per_s": 0.01, "abuse_burst": 4}], indirect=True)
async def test_requests_of_all_interfaces_count_together(secured):
    """Each with the status of HTTP, and with errors of its own form."""
    token = secured.provider.token()
    headers = {"Authorization": f"Bearer {token}"}
    for path in ("/openapi.json", "/docs", "/api/v1/tools"):
        assert (await secured.http.get(path, headers=headers)).status_code == 200
    assert (await secured.post("tools/list", token)).status_code == 200
    refused = await secured.http.get("/openapi.json", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert int(refused.headers["retry-after"]) >= 1
    assert (await secured.post("tools/list", token)).status_code == 429


@pytest.mark.parametrize("secured", [{"abuse_rate_per_s": 0.01, "abuse_burst": 5}], indirect=True)
async def test_abuse_is_answered_by_http(secured):
    """429 with Retry-After and RateLimit, a JSON-RPC body, for that caller only."""
    token, other = secured.provider.token(), secured.provider.token(sub="bob")
    for _ in range(5):
        assert (await secured.post("tools/list", token)).status_code == 200
    refused = await secured.post("tools/list", token)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "r=0" in refused.headers["ratelimit"]
    assert refused.json()["error"]["code"] == -31429
    assert (await secured.post("tools/list", other)).status_code == 200
    page = await secured.http.get("/", headers={"Authorization": f"Bearer {token}"})
    assert (page.status_code, "retry-after" in page.headers) == (429, True)


@pytest.mark.parametrize("secured", [{"costly_rate_per_s": 0.01, "costly_burst": 2}], indirect=True)
async def test_tool_that_costs_money_has_a_limit_of_its_own_and_fails_closed(secured):
    """It is refused while calls cannot be counted; a free tool still works."""
    token = secured.provider.token("PAYER")

    async def code(name):
        answer = await secured.result("tools/call", token, name=name, arguments={})
        found = answer["result"].get("structuredContent") or {}
        return found.get("error", {}).get("code", "ok")

    assert [await code("paid_tool") for _ in range(3)] == ["ok", "ok", "rate_limited"]
    assert await code("open_tool") == "ok"
    token = secured.provider.token("PAYER", sub="carol")
    secured.store.away = True
    assert await code("paid_tool") == "rate_limited"
    assert await code("open_tool") == "ok"


@pytest.mark.parametrize(
    "secured", [{"daily_budgets": {"caller_calls": 2, "tenant_calls": 3}}], indirect=True
)
async def test_a_budget_of_a_day_is_refused_by_its_name(secured):
    """Of one caller first, then of all together; the refusal is a result that a model can read."""
    tokens = {name: secured.provider.token(sub=name) for name in ("ann", "bob")}

    async def call(who):
        found = await secured.result("tools/call", tokens[who], name="open_tool", arguments={})
        return found["result"]

    for _ in range(2):
        assert not (await call("ann")).get("isError")
    refused = await call("ann")
    assert refused["isError"]
    assert "budget caller_calls" in refused["content"][0]["text"]
    assert not (await call("bob")).get("isError")
    assert "budget tenant_calls" in (await call("bob"))["content"][0]["text"]
