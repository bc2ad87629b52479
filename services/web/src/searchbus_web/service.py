"""Wires the service: providers, caches, parser processes, worker."""

from __future__ import annotations

import logging

from searchbus_bus import Worker
from searchbus_runtime import Process
from searchbus_upstream import GuardedBackend, HttpClient, SharedCache

from .extraction.extractor import Extractor
from .extraction.fetching import Fetcher, Robots
from .extraction.pool import ReaderPool
from .metasearch import Metasearch
from .providers import PROVIDERS
from .providers.tavily import Tavily
from .settings import WebSettings
from .tools import WebTools

log = logging.getLogger("searchbus.web")

_SEARCH_CACHE_BYTES = 64 * 2**20
_PAGE_CACHE_BYTES = 128 * 2**20


def build_worker(
    metasearch: Metasearch,
    extractor: Extractor,
    *,
    costly: bool = False,
    max_in_flight: int = 64,
) -> Worker:
    """The worker of a metasearch and an extractor.

    Args:
        costly: whether a search is paid for.
    """
    worker = Worker(
        "web", max_in_flight=max_in_flight, description="Web search and page extraction."
    )
    worker.add(WebTools(metasearch, extractor, costly=costly))
    return worker


async def start(process: Process[WebSettings]) -> None:
    """Build every part that is configured, then serve."""
    settings = process.settings
    providers = [await PROVIDERS[name].open(process) for name in settings.providers]
    log.info("web search uses %s", ", ".join(settings.providers))
    metasearch = Metasearch(
        providers,
        await SharedCache.over(
            process.bus, "web", stale_s=settings.web_stale_ttl_s, max_bytes=_SEARCH_CACHE_BYTES
        ),
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
    robots = Robots(robots_client, pool) if settings.extract_robots else None
    fetcher = Fetcher(backend, robots=robots)
    process.resources.push_async_callback(fetcher.close)
    tavily = next((p for p in providers if isinstance(p, Tavily)), None)
    extractor = Extractor(
        fetcher,
        pool,
        await SharedCache.over(
            process.bus,
            "pages",
            stale_s=max(1.0, settings.extract_cache_ttl_s),
            max_bytes=_PAGE_CACHE_BYTES,
        ),
        tavily=tavily if settings.extract_tavily else None,
        fresh_s=settings.extract_cache_ttl_s,
    )
    await process.serve(
        build_worker(
            metasearch,
            extractor,
            costly=any(provider.costly for provider in providers),
            max_in_flight=settings.max_in_flight,
        )
    )
