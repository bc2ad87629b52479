"""Wires the service: an egress of its own, shared cache, fleet, worker."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from contextlib import suppress
from functools import partial

from searchbus_bus import NEEDED_TIMEOUT_S, KeyValue, Worker
from searchbus_contracts.engines import ENGINES
from searchbus_contracts.web import WebSearchRequest
from searchbus_runtime import Process
from searchbus_upstream import Pace, SharedCache

from .duckduckgo import DuckDuckGo
from .egress import LEASE_TTL_S, Cooldowns, Egress, claim, egress_id, open_client
from .engines.base import Engine
from .engines.known import BY_NAME, DuckDuckGoNews
from .engines.searches import EngineSearches
from .fleet import ScraperFleet
from .search import PageClient, ScrapedSearch
from .settings import DdgSettings
from .tools import DdgTools

log = logging.getLogger("searchbus.ddg")

_STANDBY_S = 3.0
"""Between two attempts of a worker on standby to get a lease, where none is released; each is up to
half of it earlier or later, since all of them may have started together."""
_PROBE = WebSearchRequest(query="duckduckgo")
_PROBE_TIMEOUT_S = 15.0
_REFUSALS_TTL_S = 12 * 3600.0
_CACHE_BYTES = 64 * 2**20
_STATE_BYTES = 2**20


def build_worker(
    duckduckgo: DuckDuckGo, engines: EngineSearches | None = None, *, max_in_flight: int = 64
) -> Worker:
    """The worker of one egress; without other engines DuckDuckGo only."""
    worker = Worker(
        "ddg",
        max_in_flight=max_in_flight,
        description="DuckDuckGo: web search and instant answers.",
    )
    worker.add(DdgTools(duckduckgo), duckduckgo)
    if engines is not None:
        worker.add(engines)
    return worker


async def start(process: Process[DdgSettings]) -> None:
    """Get an egress, then serve; without a free one, stay on standby in the background."""
    # A worker that gave a lease up early could use the address of another.
    leases = await process.bus.key_value(
        "ddg_leases", ttl_s=LEASE_TTL_S, max_bytes=_STATE_BYTES, timeout_s=NEEDED_TIMEOUT_S
    )
    holder, settings = secrets.token_hex(8), process.settings
    find = partial(
        claim, leases, settings.ddg_egress, holder,
        index=settings.worker_index, place=settings.ddg_place,
    )  # fmt: skip
    if (egress := await find()) is not None:
        await _serve(process, egress, holder, leases)
        return
    log.warning(
        "every egress has a worker already; this one is on standby. To use it, add addresses: "
        'SEARCHBUS_DDG_EGRESS=\'["direct", "http://proxy:3128"]\''
    )

    released: asyncio.Queue[str] = asyncio.Queue()

    def on_write(key: str, value: bytes | None) -> None:
        if value is None:
            released.put_nowait(key)

    async def stand_by() -> None:
        free = None
        while free is None:
            keys = []
            # A lease that expires is not reported.
            with suppress(TimeoutError):
                async with asyncio.timeout(_STANDBY_S * random.uniform(0.5, 1.5)):  # noqa: S311
                    keys.append(await released.get())
            # Without the store no number chooses: each address has a worker.
            free = await find(index=len(settings.ddg_egress), released=keys)
        log.info("an egress is free: this worker takes over its lease")
        await _serve(process, free, holder, leases)
        await leases.unwatch(on_write)

    try:
        await leases.watch(on_write)
    except Exception:
        log.exception("the leases are not watched, but read every %.0f s", _STANDBY_S)
    process.resources.callback(asyncio.get_running_loop().create_task(stand_by()).cancel)


async def _serve(
    process: Process[DdgSettings], egress_setting: str, holder: str, leases: KeyValue
) -> None:
    settings = process.settings
    egress = await _open_egress(process, egress_setting)
    pages = PageClient(
        egress.client, html_url=settings.ddg_html_url, lite_url=settings.ddg_lite_url
    )
    refusals = await process.bus.key_value(
        "ddg_refusals", ttl_s=_REFUSALS_TTL_S, max_bytes=_STATE_BYTES
    )

    async def probe() -> bool:
        return await egress.probe(
            lambda left_s: pages.first_page("html", _PROBE, left_s), _PROBE_TIMEOUT_S
        )

    key = egress_id(egress_setting, settings.ddg_place)
    fleet = await process.enter(ScraperFleet(egress, key, holder, leases, refusals, probe))
    process.before_drain(fleet.release)
    duckduckgo = DuckDuckGo(
        process.bus,
        egress,
        ScrapedSearch(egress, pages),
        fleet,
        await SharedCache.over(
            process.bus, "ddg", stale_s=settings.ddg_stale_ttl_s, max_bytes=_CACHE_BYTES
        ),
        settings,
    )
    worker = build_worker(
        duckduckgo, _engines(egress, settings), max_in_flight=settings.max_in_flight
    )
    fleet.manage(await process.serve(worker))
    log.info("searches are sent through %s", egress.name)


def _engines(web: Egress, settings: DdgSettings) -> EngineSearches:
    """The other engines: DuckDuckGo's news through its own egress, each other one at its pace."""
    pairs: dict[str, tuple[Engine, Egress]] = {}
    for name, engine in BY_NAME.items():
        egress = web
        if name != DuckDuckGoNews.name:
            egress = Egress(
                f"{web.name} {name}",
                web.client,
                Pace(settings.ddg_engines_interval_s, name=f"{name}_pace"),
                title=ENGINES[name].title,
                cooldowns=web.cooldowns,
                probed=False,
                max_in_flight=1,
            )
        pairs[name] = (engine(settings.ddg_engine_urls.get(name)), egress)
    return EngineSearches(pairs, web)


async def _open_egress(process: Process[DdgSettings], egress_setting: str) -> Egress:
    settings = process.settings
    client = open_client(egress_setting, impersonate=settings.ddg_impersonate)
    process.resources.push_async_callback(client.close)
    return Egress(
        _without_credentials(egress_setting),
        client,
        Pace(
            settings.ddg_interval_s,
            min_interval_s=settings.ddg_min_interval_s,
            burst=settings.ddg_burst,
            name="ddg_pace",
        ),
        cooldowns=Cooldowns(
            settings.ddg_challenge_rest_s,
            settings.ddg_limited_rest_s,
            settings.ddg_suspicion_rest_s,
        ),
        max_in_flight=settings.ddg_max_in_flight,
    )


def _without_credentials(egress: str) -> str:
    """A proxy's URL for logs."""
    scheme, separator, rest = egress.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else egress
