"""Settings of the DuckDuckGo service (environment prefix SEARCHBUS_)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, field_validator

from searchbus_contracts.engines import ENGINES
from searchbus_runtime import ServiceSettings

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class DdgSettings(ServiceSettings):
    """Settings of the DuckDuckGo service. Lists are JSON."""

    ddg_egress: tuple[str, ...] = Field(("direct",), min_length=1, max_length=64)
    """Egress addresses, one per worker: 'direct', 'bind:<own address>' or a proxy's URL."""
    ddg_place: str = Field("", max_length=253)
    """Names the machine whose address 'direct' and 'bind:' use: workers of one place share it.
    Default: the host name; in containers set the name of the node."""
    worker_index: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Where in the list of egress addresses a worker starts; `searchbus up --scale` sets it."""
    ddg_html_url: str = "https://html.duckduckgo.com/html/"
    """Address of DuckDuckGo's HTML page."""
    ddg_lite_url: str = "https://lite.duckduckgo.com/lite/"
    """Address of DuckDuckGo's light page."""
    ddg_instant_url: str = "https://api.duckduckgo.com/"
    """Address of DuckDuckGo's instant answers."""
    ddg_interval_s: Seconds = 2.5
    """Time between two searches of an address; 0 switches pacing off. It doubles after a refusal,
    and halves within five minutes."""
    ddg_min_interval_s: Seconds = 2.0
    """The shortest interval that the pace may reach."""
    ddg_burst: Annotated[int, Field(ge=1, le=10)] = 1
    """Searches of an address without a pause, after it was idle."""
    ddg_max_in_flight: Annotated[int, Field(ge=1, le=64)] = 4
    """Requests of an address at the same time."""
    ddg_challenge_rest_s: Seconds = 3600.0
    """Cooldown of an address after a challenge; it doubles while probes fail."""
    ddg_suspicion_rest_s: Seconds = 5.0
    """Cooldown of an address after an empty page, until a probe decides."""
    ddg_limited_rest_s: Seconds = 180.0
    """Cooldown of an address after HTTP 403 or 429; it doubles while probes fail."""
    ddg_cache_ttl_s: Seconds = 600.0
    """How long results are reused, by all workers."""
    ddg_instant_cache_ttl_s: Seconds = 3600.0
    """How long instant answers are reused, by all workers."""
    ddg_stale_ttl_s: Seconds = 6 * 3600.0
    """How old a result may be, marked as stale, while DuckDuckGo fails."""
    ddg_impersonate: str | None = None
    """The browser whose TLS fingerprint curl_cffi imitates, e.g. 'chrome'."""

    ddg_engines_interval_s: Seconds = 3.0
    """Time between two requests of an address to one of the other engines without a key; 0 switches
    pacing off. It doubles after a refusal."""
    ddg_engine_urls: dict[str, str] = Field({})
    """Addresses of engines in place of their own: name → URL, e.g. {"mojeek":
    "http://127.0.0.1:9000/search"}."""

    @field_validator("ddg_engine_urls")
    @classmethod
    def _known_engines(cls, urls: dict[str, str]) -> dict[str, str]:
        known = sorted(ENGINES.keys() - {"ddg"})
        for name in urls:
            if name not in known:
                raise ValueError(f"no engine {name[:40]!r}: use {', '.join(known)}")
        return urls

    @field_validator("ddg_egress")
    @classmethod
    def _known_kinds(cls, egresses: tuple[str, ...]) -> tuple[str, ...]:
        for egress in egresses:
            if not re.match(r"direct$|bind:[0-9A-Fa-f.:]+$|(http|https|socks5h?)://", egress):
                kind = egress.partition(":")[0][:12]
                raise ValueError(
                    f"an egress is 'direct', 'bind:<own address>' or a proxy's URL, not '{kind}…'"
                )
        if len(set(egresses)) < len(egresses):
            raise ValueError("an egress is listed twice; list each one once")
        return egresses
