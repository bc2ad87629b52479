"""Settings of the web service (environment prefix SEARCHBUS_)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from searchbus_contracts.engines import ENGINES

from .providers import PROVIDERS, ProviderSettings

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class WebSettings(ProviderSettings):
    """Settings of the web service. Lists and maps are JSON."""

    web_providers: tuple[str, ...] = ()
    """The providers of a search, all used at once; empty: those that are configured, or DuckDuckGo
    where none is."""
    web_engines: tuple[str, ...] = ()
    """The engines without a key that `web_find` uses beside the providers with a key; empty:
    DuckDuckGo and those whose interface is open to programs."""
    web_cache_ttl_s: Seconds = 600.0
    """How long search results are reused, by all workers."""
    web_news_cache_ttl_s: Seconds = 120.0
    """How long results of news searches are reused, by all workers."""
    web_stale_ttl_s: Seconds = 6 * 3600.0
    """How old a result may be, marked as stale, while the providers fail."""
    extract_cache_ttl_s: Seconds = 600.0
    """How long extracted pages are reused, by all workers."""
    extract_robots: bool = True
    """Whether robots.txt is followed."""
    crawl_delay_s: Annotated[float, Field(ge=0, le=60)] = 1.0
    """Seconds between two requests of maps and crawls to one host, of all workers together. A
    longer Crawl-delay of its robots.txt is kept up to 30 s."""
    extract_processes: Annotated[int, Field(ge=1, le=64)] = 2
    """Processes that parse pages, from the first page on. One caller has at most half of them at a
    time."""
    extract_page_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Time for parsing one page, once it is fetched; a process that takes longer is killed."""
    extract_tavily: bool = True
    """Lets Tavily extract pages that this service could not, where it has a key."""
    web_routes: dict[str, str] = Field({})
    """Allowlist of hosts: pattern → address:port to connect to, e.g. {"wiki.corp.example":
    "10.0.0.7:80"}."""

    @model_validator(mode="after")
    def _named_providers_are_configured(self) -> WebSettings:
        for name in self.web_providers:
            if name not in PROVIDERS:
                raise ValueError(f"web_providers names {name[:40]!r}: use {', '.join(PROVIDERS)}")
            required = PROVIDERS[name].required_setting()
            if required and not getattr(self, required):
                raise ValueError(f"web_providers names {name}: set SEARCHBUS_{required.upper()}")
        return self

    @field_validator("web_engines")
    @classmethod
    def _known_engines(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in ENGINES:
                raise ValueError(f"web_engines names {name[:40]!r}: use {', '.join(ENGINES)}")
        return names

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines without a key that are used, most important first."""
        return tuple(
            name
            for name, facts in ENGINES.items()
            if (name in self.web_engines if self.web_engines else facts.on)
        )

    @property
    def providers(self) -> tuple[str, ...]:
        """The providers that are used, most important first."""
        if self.web_providers:
            return self.web_providers
        required = {name: kind.required_setting() for name, kind in PROVIDERS.items()}
        configured = (name for name, field in required.items() if field and getattr(self, field))
        return tuple(configured) or ("ddg",)
