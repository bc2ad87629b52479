"""Wires the service: providers, caches, parser processes, worker."""

from __future__ import annotations

import logging

from searchbus_bus import Worker
from searchbus_runtime import Process
from searchbus_upstream import GuardedBackend, HttpClient, SharedCache

from .extraction.extractor import Extractor
from .extraction.fetching import USER_AGENT, Fetcher
from .extraction.pool import ReaderPool
from .extraction.robots import Robots
from .metasearch import Metasearch
from .providers import brave, searxng, tavily
from .providers.account import Account
from .providers.base import Provider
from .providers.ddg import DuckDuckGoFleet
from .settings import WebSettings
from .tools import WebTools

__all__ = ["build_worker", "start"]

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
    providers = await _providers(process)
    log.info("web search uses %s", ", ".join(provider.name for provider in providers))
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
    robots = Robots(robots_client, pool, USER_AGENT) if settings.extract_robots else None
    fetcher = Fetcher(backend, robots=robots)
    process.resources.push_async_callback(fetcher.close)
    tavily_provider = next((p for p in providers if isinstance(p, tavily.Tavily)), None)
    extractor = Extractor(
        fetcher,
        pool,
        await SharedCache.over(
            process.bus,
            "pages",
            stale_s=max(1.0, settings.extract_cache_ttl_s),
            max_bytes=_PAGE_CACHE_BYTES,
        ),
        tavily=tavily_provider if settings.extract_tavily else None,
        fresh_s=settings.extract_cache_ttl_s,
    )
    await process.serve(
        build_worker(
            metasearch,
            extractor,
            costly=any(name in ("tavily", "brave") for name in settings.providers),
            max_in_flight=settings.max_in_flight,
        )
    )


async def _providers(process: Process[WebSettings]) -> list[Provider]:
    settings = process.settings
    kv = await process.bus.key_value("web_pace", ttl_s=3600.0, max_bytes=2**20)
    providers: list[Provider] = []

    def client(name: str) -> HttpClient:
        opened = HttpClient(name)
        process.resources.push_async_callback(opened.close)
        return opened

    for name in settings.providers:
        if name == "tavily":
            keys = [key.get_secret_value() for key in settings.tavily_api_keys]
            account = Account("Tavily", client(name), keys, fault_of=tavily.fault_of, kv=kv,
                              rate_per_minute=settings.tavily_rpm)  # fmt: skip
            providers.append(tavily.Tavily(account, settings.tavily_url))
        elif name == "brave":
            keys = [key.get_secret_value() for key in settings.brave_api_keys]
            account = Account("Brave Search", client(name), keys, fault_of=brave.fault_of, kv=kv,
                              rate_per_minute=settings.brave_rpm)  # fmt: skip
            providers.append(brave.Brave(account, settings.brave_url))
        elif name == "searxng" and settings.searxng_url is not None:
            account = Account("SearXNG", client(name), [""], fault_of=searxng.fault_of, kv=kv,
                              rate_per_minute=settings.searxng_rpm)  # fmt: skip
            providers.append(searxng.SearXNG(account, settings.searxng_url))
        else:
            providers.append(DuckDuckGoFleet(process.bus))
    return providers
