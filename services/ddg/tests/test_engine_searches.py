"""Engines over the bus: their pace, their cooldown, and the states that they report."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_contracts import Actor, Fault
from searchbus_contracts.engines import EngineRequest, EngineStatesReply, EngineStatesRequest
from searchbus_contracts.web import WebSearchReply
from searchbus_fakes.engines import ENGINE_PATHS
from searchbus_fakes.web import FakeWeb
from searchbus_testing import serve


@pytest.fixture
async def engines(fleet):
    """One worker whose engines are the fake's; returns the fleet and the fake."""
    fake = FakeWeb()
    async with serve(fake.app) as url:
        paths = {name: f"{url}/engines/{path}" for name, path in ENGINE_PATHS.items()}
        await fleet.start_worker(ddg_engine_urls=paths, ddg_engines_interval_s=0.0)
        yield fleet, fake


async def search(fleet, engine: str, query: str = "whales", **options) -> WebSearchReply:
    timeout_s = options.pop("timeout_s", 10.0)
    return await fleet.bus.request(
        fleet.bus.subjects.endpoint("ddg", "engine"),
        EngineRequest(engine=engine, query=query, **options),
        WebSearchReply, service="ddg", timeout_s=timeout_s, actor=Actor(subject="a"),
    )  # fmt: skip


async def states(fleet) -> dict[str, tuple[str, str]]:
    reply = await fleet.bus.request(
        fleet.bus.subjects.endpoint("ddg", "engines"), EngineStatesRequest(), EngineStatesReply,
        service="ddg", timeout_s=10.0, actor=Actor(subject="a"),
    )  # fmt: skip
    return {one.engine: (one.state, one.outcome) for one in reply.engines}


@pytest.mark.parametrize("engine", sorted(ENGINE_PATHS))
async def test_each_engine_gives_its_pages(engines, engine):
    """Other rows on the second page; none that exist only as a failure."""
    fleet, _ = engines
    first = await search(fleet, engine)
    second = await search(fleet, engine, page=2)
    assert len(first.results) == len(second.results) == 10
    assert not {r.url for r in first.results} & {r.url for r in second.results}
    assert first.more
    assert (await states(fleet))[engine] == ("ready", "ok")
    assert (await search(fleet, engine, "noresult")).results == ()
    assert (await states(fleet))[engine] == ("ready", "empty")


@pytest.mark.parametrize(
    ("query", "code", "state"),
    [
        ("captcha", "upstream_blocked", ("cooling", "challenge")),
        ("http429", "upstream_limited", ("cooling", "rate_limited")),
        ("garbage", "upstream_failed", ("failed", "unknown_markup")),
        ("http500", "upstream_failed", ("failed", "upstream_error")),
    ],
)
async def test_refused_engine_is_left_alone_and_no_other_one(engines, query, code, state):
    """Its next searches fail at once, without a request; the others go on."""
    fleet, fake = engines
    with pytest.raises(Fault) as caught:
        await search(fleet, "mojeek", query)
    assert caught.value.code == code
    assert "Mojeek" in caught.value.failure.message
    assert (await states(fleet))["mojeek"] == state
    if state[0] == "cooling":
        assert caught.value.failure.retry_after_ms > 1000
        sent = fake.calls["mojeek"]
        with pytest.raises(Fault) as caught:
            await search(fleet, "mojeek")
        assert caught.value.code == "upstream_blocked"
        assert fake.calls["mojeek"] == sent
    assert (await search(fleet, "marginalia")).results
    assert (await states(fleet))["ddg"][0] == "ready"


async def test_first_request_after_the_cooldown_is_the_probe(fleet):
    """One at a time; its success ends the cooldown."""
    fake = FakeWeb()
    async with serve(fake.app) as url:
        await fleet.start_worker(
            ddg_engine_urls={"mojeek": f"{url}/engines/mojeek"}, ddg_engines_interval_s=0.0,
            ddg_challenge_rest_s=0.2,
        )  # fmt: skip
        with pytest.raises(Fault):
            await search(fleet, "mojeek", "captcha")
        await asyncio.sleep(0.3)
        with pytest.raises(Fault):
            await search(fleet, "mojeek", "captcha again")
        await asyncio.sleep(0.5)
        found = await asyncio.gather(
            *(search(fleet, "mojeek", f"w{n}") for n in range(5)), return_exceptions=True
        )
        assert sum(isinstance(one, WebSearchReply) for one in found) >= 1
        assert (await search(fleet, "mojeek")).results


async def test_requests_keep_their_distance(fleet):
    """A turn that would come after the deadline is refused at once; other engines have their own."""
    fake = FakeWeb()
    async with serve(fake.app) as url:
        paths = {name: f"{url}/engines/{path}" for name, path in ENGINE_PATHS.items()}
        await fleet.start_worker(ddg_engine_urls=paths, ddg_engines_interval_s=60.0)
        assert (await search(fleet, "mojeek")).results
        with pytest.raises(Fault) as caught:
            await search(fleet, "mojeek", "other")
        assert caught.value.code == "overloaded"
        assert fake.calls["mojeek"] == 1
        assert (await search(fleet, "wikipedia")).results


@pytest.mark.parametrize(
    ("engine", "query", "code"),
    [("nobody", "x", "invalid_argument"), ("ddg", "x", "invalid_argument"),
     ("mojeek", " ", "invalid_query"), ("mojeek", "x" * 500, "invalid_query")],
)  # fmt: skip
async def test_wrong_requests_are_refused(engines, engine, query, code):
    """Before anything is sent."""
    fleet, fake = engines
    with pytest.raises(Fault) as caught:
        await search(fleet, engine, query)
    assert caught.value.code == code
    assert not fake.calls


async def test_slow_engine_ends_by_the_deadline(engines):
    """With a typed failure."""
    fleet, _ = engines
    with pytest.raises(Fault) as caught:
        await search(fleet, "wikipedia", "slow", timeout_s=1.0)
    assert caught.value.code in ("upstream_failed", "deadline_exceeded")
