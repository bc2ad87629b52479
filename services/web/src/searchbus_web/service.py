"""Wires the service: providers, caches, parser processes, worker."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from searchbus_bus import NEEDED_TIMEOUT_S, Bus, Toolset, Worker
from searchbus_contracts.engines import ENGINES
from searchbus_runtime import Process
from searchbus_upstream import GuardedBackend, HttpClient, SharedCache

from .engines.search import EngineSearch
from .engines.tools import EngineTools
from .extraction.extractor import Extractor
from .extraction.fetching import Fetcher, Robots
from .extraction.pool import ReaderPool
from .extraction.scripts import BrowserService
from .metasearch import Metasearch
from .pages.tools import PageTools
from .providers import PROVIDERS
from .providers.base import Provider
from .providers.ddg import DuckDuckGoFleet, EngineProvider
from .providers.tavily import Tavily
from .settings import WebSettings
from .sites import politeness, records
from .sites.mapping import SiteReader
from .sites.tools import SiteTools
from .tools import WebTools

log = logging.getLogger("searchbus.web")

_SEARCH_CACHE_BYTES = 64 * 2**20
_PAGE_CACHE_BYTES = 128 * 2**20


def build_worker(
    metasearch: Metasearch,
    extractor: Extractor,
    *toolsets: Toolset,
    costly: bool = False,
    max_in_flight: int = 64,
) -> Worker:
    """The worker of a metasearch, an extractor and `toolsets`; `costly`: a search is paid for."""
    worker = Worker(
        "web", max_in_flight=max_in_flight, description="Web search and page extraction."
    )
    worker.add(WebTools(metasearch, extractor, costly=costly), *toolsets)
    return worker


def _engine(bus: Bus, name: str, providers: Sequence[Provider]) -> Provider:
    """The provider of an engine without a key: the one that is there, where one is."""
    there = next((provider for provider in providers if provider.name == name), None)
    if there is not None:
        return there
    return DuckDuckGoFleet(bus) if name == DuckDuckGoFleet.name else EngineProvider(bus, name)


async def start(process: Process[WebSettings]) -> None:
    """Build every part that is configured, then serve."""
    settings = process.settings
    providers = [await PROVIDERS[name].open(process) for name in settings.providers]
    log.info("web search uses %s", ", ".join(settings.providers))
    keyed = [provider for provider in providers if provider.name not in ENGINES]
    engines = [_engine(process.bus, name, providers) for name in ENGINES]
    metasearch = Metasearch(
        providers,
        await SharedCache.over(
            process.bus, "web", stale_s=settings.web_stale_ttl_s, max_bytes=_SEARCH_CACHE_BYTES
        ),
        others=[engine for engine in engines if engine not in providers],
        fresh_s=settings.web_cache_ttl_s,
        news_fresh_s=settings.web_news_cache_ttl_s,
        stale_s=settings.web_stale_ttl_s,
    )
    pool = await process.enter(
        ReaderPool(settings.extract_processes, timeout_s=settings.extract_page_timeout_s)
    )
    backend = GuardedBackend(routes=settings.web_routes)
    robots_client = HttpClient("robots", backend=backend)
    process.resources.push_async_callback(robots_client.close)
    robots = Robots(robots_client, pool, allows_host=backend.allows_host)
    fetcher = Fetcher(backend, robots=robots if settings.extract_robots else None)
    process.resources.push_async_callback(fetcher.close)
    tavily = next((p for p in providers if isinstance(p, Tavily)), None)
    pages = await SharedCache.over(
        process.bus,
        "pages",
        stale_s=max(1.0, settings.extract_cache_ttl_s),
        max_bytes=_PAGE_CACHE_BYTES,
    )
    extractor = Extractor(
        fetcher,
        pool,
        pages,
        scripts=BrowserService(process.bus),
        tavily=tavily if settings.extract_tavily else None,
        fresh_s=settings.extract_cache_ttl_s,
    )
    hosts = await process.bus.key_value(
        politeness.BUCKET, ttl_s=politeness.BUCKET_TTL_S, max_bytes=politeness.BUCKET_BYTES
    )
    crawls = await process.bus.key_value(
        records.BUCKET, ttl_s=records.BUCKET_TTL_S, max_bytes=records.BUCKET_BYTES, on_disk=True,
        timeout_s=NEEDED_TIMEOUT_S,
    )  # fmt: skip
    # Maps and crawls obey robots.txt, whatever is set for pages that somebody asks for.
    polite = politeness.Politeness(robots, hosts, delay_s=settings.crawl_delay_s)
    sites = SiteTools(
        process.bus,
        SiteReader(fetcher, pool, extractor, polite),
        crawls,
        pages,
        allows_host=backend.allows_host,
    )
    costly = any(provider.costly for provider in keyed)
    on = settings.engines
    search = EngineSearch(
        metasearch,
        [*keyed, *(engine for engine in engines if engine.name in on)],
        [*(provider.name for provider in keyed), *on],
    )
    await process.serve(
        build_worker(
            metasearch,
            extractor,
            EngineTools(process.bus, search, keyed=keyed, on=on, costly=costly),
            PageTools(extractor, pool),
            sites,
            costly=costly,
            max_in_flight=settings.max_in_flight,
        )
    )
