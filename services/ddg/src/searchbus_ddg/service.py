"""Wires the service: an egress of its own, shared cache, fleet, worker."""

from __future__ import annotations

import asyncio
import logging
import secrets

from searchbus_bus import KeyValue, Worker
from searchbus_contracts import Fault
from searchbus_contracts.web import WebSearchRequest
from searchbus_runtime import Process
from searchbus_upstream import Pace, SharedCache

from .asking import Asking
from .duckduckgo import DuckDuckGo, Freshness
from .egress import Egress, Rest, egress_id, open_transport
from .fleet import LEASE_TTL_S, Fleet, claim
from .search import Search
from .settings import DdgSettings
from .tools import add_tools

__all__ = ["build_worker", "start"]

log = logging.getLogger("searchbus.ddg")

_STAND_BY_S = 3.0
_PROBE = WebSearchRequest(query="duckduckgo")
_PROBE_TIMEOUT_S = 15.0
_CACHE_BYTES = 64 * 2**20


def build_worker(duckduckgo: DuckDuckGo, *, max_in_flight: int = 64) -> Worker:
    """The worker of one egress."""
    worker = Worker(
        "ddg",
        max_in_flight=max_in_flight,
        description="DuckDuckGo: web search and instant answers.",
    )
    add_tools(worker, duckduckgo)
    return worker


async def start(process: Process[DdgSettings]) -> None:
    """Get an egress, then serve; without one, stand by in the background."""
    leases = await _bucket(process, "ddg_leases", LEASE_TTL_S)
    holder = secrets.token_hex(8)
    settings = process.settings
    chosen = await _claim(leases, holder, settings)
    if chosen is not None:
        await _serve(process, chosen, holder, leases)
        return
    log.warning(
        "every egress has a worker already; this one stands by. More addresses: "
        'SEARCHBUS_DDG_EGRESS=\'["direct", "http://proxy:3128"]\''
    )
    task = asyncio.get_running_loop().create_task(_stand_by(process, holder, leases))
    process.resources.callback(task.cancel)


async def _stand_by(process: Process[DdgSettings], holder: str, leases: KeyValue | None) -> None:
    settings = process.settings
    while True:
        await asyncio.sleep(_STAND_BY_S)
        chosen = await _claim(leases, holder, settings)
        if chosen is not None:
            log.info("an egress is free: this worker takes over")
            await _serve(process, chosen, holder, leases)
            return


async def _claim(leases: KeyValue | None, holder: str, settings: DdgSettings) -> str | None:
    return await claim(
        leases,
        settings.ddg_egress,
        holder,
        index=settings.worker_index,
        place=settings.ddg_place,
    )


async def _serve(
    process: Process[DdgSettings], chosen: str, holder: str, leases: KeyValue | None
) -> None:
    settings = process.settings
    transport = open_transport(chosen, impersonate=settings.ddg_impersonate)
    process.resources.push_async_callback(transport.close)
    egress = Egress(
        _shown(chosen),
        transport,
        Pace(
            settings.ddg_interval_s,
            min_interval_s=settings.ddg_min_interval_s,
            burst=settings.ddg_burst,
            name="ddg_pace",
        ),
        rest=Rest(settings.ddg_challenge_rest_s, settings.ddg_limited_rest_s),
        max_in_flight=settings.ddg_max_in_flight,
    )
    asking = Asking(transport, html_url=settings.ddg_html_url, lite_url=settings.ddg_lite_url)
    refusals = await _bucket(process, "ddg_refusals", 12 * 3600.0)

    async def probe() -> bool:
        return await egress.probe(
            lambda left_s: asking.first("html", _PROBE, left_s), _PROBE_TIMEOUT_S
        )

    fleet = await process.enter(
        Fleet(egress, egress_id(chosen, settings.ddg_place), holder, leases, refusals, probe)
    )
    process.before_drain(fleet.release)
    cache = await SharedCache.over(
        process.bus, "ddg", stale_s=settings.ddg_stale_ttl_s, max_bytes=_CACHE_BYTES
    )
    duckduckgo = DuckDuckGo(
        process.bus,
        egress,
        Search(egress, asking),
        fleet,
        cache,
        instant_url=settings.ddg_instant_url,
        freshness=Freshness(
            settings.ddg_cache_ttl_s, settings.ddg_instant_cache_ttl_s, settings.ddg_stale_ttl_s
        ),
    )
    fleet.attend(
        await process.serve(build_worker(duckduckgo, max_in_flight=settings.max_in_flight))
    )
    log.info("searches go out by %s", egress.name)


def _shown(egress: str) -> str:
    """For logs: a proxy without its credentials."""
    scheme, sign, rest = egress.partition("://")
    return f"{scheme}{sign}{rest.rpartition('@')[2]}" if sign else egress


async def _bucket(process: Process[DdgSettings], name: str, ttl_s: float) -> KeyValue | None:
    try:
        return await process.bus.key_value(name, ttl_s=ttl_s, max_bytes=2**20)
    except Fault as fault:
        log.warning("%s; the workers do not know of each other", fault.failure.message)
        return None
