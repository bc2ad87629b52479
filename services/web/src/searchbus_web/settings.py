"""Settings of the web service (environment prefix SEARCHBUS_)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from searchbus_runtime import ServiceSettings

__all__ = ["WebSettings"]

Seconds = Annotated[float, Field(ge=0, le=86_400)]
ProviderName = Literal["tavily", "searxng", "brave", "ddg"]


class WebSettings(ServiceSettings):
    """Settings of the web service. Lists and maps are JSON."""

    web_providers: tuple[ProviderName, ...] = Field(
        (),
        description="The providers of a search, all used at once; empty: those that are "
        "configured, or DuckDuckGo where none is.",
    )
    tavily_api_keys: tuple[SecretStr, ...] = Field((), description="Used in rotation.")
    tavily_url: str = "https://api.tavily.com"
    tavily_rpm: Annotated[float, Field(ge=0)] = Field(
        100.0, description="Requests per minute of one key; 95 % of it is used. 0: no limit."
    )
    brave_api_keys: tuple[SecretStr, ...] = ()
    brave_url: str = "https://api.search.brave.com/res/v1"
    brave_rpm: Annotated[float, Field(ge=0)] = 60.0
    searxng_url: str | None = None
    searxng_rpm: Annotated[float, Field(ge=0)] = 0.0
    web_cache_ttl_s: Seconds = 600.0
    web_news_cache_ttl_s: Seconds = 120.0
    web_stale_ttl_s: Seconds = 6 * 3600.0
    extract_cache_ttl_s: Seconds = 600.0
    extract_robots: bool = Field(True, description="Whether robots.txt is followed.")
    extract_processes: Annotated[int, Field(ge=1, le=64)] = 2
    extract_page_timeout_s: Annotated[float, Field(gt=0, le=60)] = Field(
        5.0, description="For parsing one page, once it is fetched."
    )
    extract_tavily: bool = Field(
        True,
        description="Lets Tavily extract pages that this service could not, where it has a key.",
    )
    web_routes: dict[str, str] = Field(
        {},
        description="Allowlist of hosts: pattern → address:port to connect to, e.g. "
        '{"wiki.corp.example": "10.0.0.7:80"}.',
    )

    @model_validator(mode="after")
    def _named_providers_are_configured(self) -> WebSettings:
        for name in self.web_providers:
            if name == "tavily" and not self.tavily_api_keys:
                raise ValueError("web_providers names tavily: set SEARCHBUS_TAVILY_API_KEYS")
            if name == "brave" and not self.brave_api_keys:
                raise ValueError("web_providers names brave: set SEARCHBUS_BRAVE_API_KEYS")
            if name == "searxng" and not self.searxng_url:
                raise ValueError("web_providers names searxng: set SEARCHBUS_SEARXNG_URL")
        return self

    @property
    def providers(self) -> tuple[ProviderName, ...]:
        """The providers that are used, most important first."""
        if self.web_providers:
            return self.web_providers
        configured: list[ProviderName] = []
        if self.tavily_api_keys:
            configured.append("tavily")
        if self.brave_api_keys:
            configured.append("brave")
        if self.searxng_url:
            configured.append("searxng")
        return tuple(configured) or ("ddg",)
