"""What is done to each system. A scenario takes one that runs; its figures have the names of the page's columns."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from ..edge import IN_FLIGHT
from ..load import count_for, cpu_s, send
from .system import Running

SETTLE_S = 0.2
PATIENCE_S = 5.0
"""A call that has no answer after this long counts as failed, "no answer"."""
PACE_PER_S = 50
LISTS = 3


@dataclass(frozen=True)
class Outcome:
    """One call: when it began, how long it took, and how it failed; `failure` is None if it did not."""

    at_s: float
    took_s: float
    failure: str | None


def failure(status: int, message: Any) -> str | None:
    """How an answer says that a call failed; None if it did not."""
    if isinstance(message, Mapping) and "error" in message:
        return f"JSON-RPC error {message['error'].get('code')}"
    if status >= 400:
        return f"HTTP {status}"
    if not isinstance(message, Mapping) or "result" not in message:
        return "no JSON-RPC answer"
    return "isError" if message["result"].get("isError") else None


def recovery_s(outcomes: Iterable[Outcome], restarted_s: float) -> float | None:
    """Seconds from the upstream's return to the first call after which none failed; None: never."""
    good_since = None
    for call in sorted(outcomes, key=lambda o: o.at_s):
        if call.failure:
            good_since = None
        elif good_since is None and call.at_s >= restarted_s:
            good_since = call.at_s
    return None if good_since is None else round(good_since - restarted_s, 2)


async def calls(
    running: Running, behind: Sequence[int], load_s: float, paced_s: float
) -> dict[str, float]:
    """Calls with IN_FLIGHT connections, one at a time, and at PACE_PER_S; the CPU of all processes.

    At that pace timers that run between the calls count, too.
    """
    pids = [*running.all_pids(), *behind]
    many, one = await running.spec(IN_FLIGHT), await running.spec(1)
    count = await count_for(many, load_s)
    before_s = cpu_s(pids)
    hot = await send({**many, "count": count})
    await asyncio.sleep(SETTLE_S)  # what threads write afterwards belongs to the calls
    hot_s = cpu_s(pids) - before_s
    alone = await send({**one, "count": await count_for(one, load_s / 2)})
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        session = await running.begun(client)
        await asyncio.gather(*await _paced(running, client, session, SETTLE_S))
        before_s = cpu_s(pids)
        outcomes = await asyncio.gather(*await _paced(running, client, session, paced_s))
        paced_cpu_s = cpu_s(pids) - before_s
    return {
        "calls/s": hot["requests/s"],
        "p50 ms": 1e3 * alone["p50_s"],
        "CPU us": 1e6 * hot_s / hot["requests"],
        "paced CPU us": 1e6 * paced_cpu_s / len(outcomes),
        "paced failures": sum(o.failure is not None for o in outcomes),
    }


async def listing(running: Running, behind: Sequence[int]) -> dict[str, Any]:
    """All pages of tools/list, LISTS times."""
    pids = [*running.all_pids(), *behind]
    times_s, used_s, names = [], [], set()
    async with httpx.AsyncClient(timeout=60) as client:
        session = await running.begun(client)
        for _ in range(LISTS):
            before_s, started_s = cpu_s(pids), time.perf_counter()
            names = await _tools(running, client, session)
            times_s.append(time.perf_counter() - started_s)
            used_s.append(cpu_s(pids) - before_s)
    return {
        "tools listed": len(names),
        "ms": 1e3 * statistics.median(times_s),
        "CPU ms of all processes": 1e3 * statistics.median(used_s),
    }


async def slow(running: Running, quick_calls: int) -> dict[str, Any]:
    """IN_FLIGHT callers wait for a tool that takes a second; another calls the quick one."""
    measured = asyncio.Event()
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        session = await running.begun(client)

        async def quick_s() -> float:
            outcomes = [await _call(running, client, session) for _ in range(quick_calls)]
            return statistics.median(o.took_s for o in outcomes)

        async def fill() -> list[Outcome]:
            outcomes = [await _call(running, client, session, "slow")]
            while not measured.is_set():
                outcomes.append(await _call(running, client, session, "slow"))
            return outcomes

        alone_s = await quick_s()
        filling = [asyncio.create_task(fill()) for _ in range(IN_FLIGHT)]
        await asyncio.sleep(SETTLE_S)
        meanwhile_s = await quick_s()
        measured.set()
        outcomes = [o for task in filling for o in await task]
    return {
        "slow calls": len(outcomes),
        "failed": _counted(outcomes),
        "p50 ms of the quick one": 1e3 * meanwhile_s,
        "times of alone": meanwhile_s / alone_s,
    }


async def killed(
    running: Running,
    kill: Callable[[], None],
    restart: Callable[[], Awaitable[float]],
    part_s: float,
) -> dict[str, Any]:
    """The upstream is killed under PACE_PER_S calls; two parts later `restart` starts it, and says when it was back."""
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        session = await running.begun(client)
        before = await asyncio.gather(*await _paced(running, client, session, part_s))
        kill()
        sent = await _paced(running, client, session, 2 * part_s)
        restarting = asyncio.ensure_future(restart())
        sent += await _paced(running, client, session, 7 * part_s)
        back_s = await restarting
        outcomes = await asyncio.gather(*sent)
    away = [o for o in outcomes if o.at_s < back_s]
    recovered_s = recovery_s(outcomes, back_s)
    return {
        "failed before": _counted(before),
        "calls while it was away": len(away),
        "failed": _counted(away),
        "slowest failure, ms": 1e3 * max((o.took_s for o in away if o.failure), default=0.0),
        "failed after": _counted(o for o in outcomes if o.at_s >= back_s),
        "recovery, s": "never" if recovered_s is None else recovered_s,
    }


async def poisoned(running: Running) -> dict[str, Any]:
    """One tool of the upstream has a broken schema: what of the others is left?"""
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        session = await running.begun(client)
        called = await _call(running, client, session)
        wrong = await _call(running, client, session, arguments={"text": ["no text"]})
        try:
            names = await _tools(running, client, session)
        except RuntimeError:
            names = set()
    return {
        "others listed": running.prefix + "echo" in names,
        "others answer": called.failure is None,
        "broken one listed": running.prefix + "poisoned" in names,
        "wrong argument refused": called.failure is None and wrong.failure is not None,
    }


async def _call(
    running: Running,
    client: httpx.AsyncClient,
    session: Mapping[str, str],
    tool: str = "echo",
    arguments: Mapping[str, Any] | None = None,
) -> Outcome:
    headers, body = running.message("tools/call", tool)
    if arguments is not None:
        body["params"]["arguments"] = arguments
    started_s = time.perf_counter()
    try:
        response = await client.post(running.url, json=body, headers={**headers, **session})
        failed = failure(response.status_code, _decoded(response))
    except httpx.TimeoutException:
        failed = "no answer"
    except httpx.HTTPError as error:
        failed = type(error).__name__
    return Outcome(started_s, time.perf_counter() - started_s, failed)


async def _paced(
    running: Running, client: httpx.AsyncClient, session: Mapping[str, str], load_s: float
) -> list[asyncio.Task[Outcome]]:
    """Send PACE_PER_S calls, each at its time, whatever becomes of those before it."""
    begun_s = time.perf_counter()
    tasks = []
    for number in range(round(PACE_PER_S * load_s)):
        await asyncio.sleep(begun_s + number / PACE_PER_S - time.perf_counter())
        tasks.append(asyncio.create_task(_call(running, client, session)))
    return tasks


async def _tools(
    running: Running, client: httpx.AsyncClient, session: Mapping[str, str]
) -> set[str]:
    """The names of all pages of tools/list; raises RuntimeError where it fails."""
    found: set[str] = set()
    headers, body = running.message("tools/list")
    while True:
        response = await client.post(running.url, json=body, headers={**headers, **session})
        answer = _decoded(response)
        if failed := failure(response.status_code, answer):
            raise RuntimeError(f"tools/list: {failed}")
        found |= {tool["name"] for tool in answer["result"]["tools"]}
        if not (cursor := answer["result"].get("nextCursor")):
            return found
        body["params"] = {"cursor": cursor}


def _decoded(response: httpx.Response) -> Any:
    """The answer: a JSON body, or the last message of an event stream; None if there is none."""
    lines = [line[5:] for line in response.text.splitlines() if line.startswith("data:")]
    try:
        return json.loads(lines[-1] if lines else response.text)
    except ValueError:
        return None


def _counted(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Failures by their kind."""
    return dict(Counter(o.failure for o in outcomes if o.failure).most_common())
