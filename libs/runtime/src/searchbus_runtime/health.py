"""/healthz, /readyz and /metrics, for the health port of workers and for the edge's own app."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

Check = Callable[[], Awaitable[bool]]
Answer = tuple[int, str, bytes]
"""Status, content type, body."""


class Health:
    """The checks of one process, and whether it is draining."""

    def __init__(self) -> None:
        self.draining = False
        self._alive: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._details: dict[str, Callable[[], Any]] = {}

    def add_liveness(self, name: str, check: Check) -> None:
        """Add a check whose failure means that the process must be restarted."""
        self._alive[name] = check

    def add_readiness(self, name: str, check: Check) -> None:
        """Add a check whose failure means that the process cannot take requests now."""
        self._ready[name] = check

    def add_detail(self, name: str, read: Callable[[], Any]) -> None:
        """Add a value (for JSON) to what /readyz says, unless it is empty; no outcome changes."""
        self._details[name] = read

    def details(self) -> dict[str, Any]:
        """The details that are not empty."""
        found = {name: read() for name, read in self._details.items()}
        return {name: value for name, value in found.items() if value}

    async def alive(self) -> dict[str, bool]:
        """Every liveness check and its outcome."""
        return {name: await _safely(check) for name, check in self._alive.items()}

    async def ready(self) -> dict[str, bool]:
        """Every readiness check and its outcome; a process that drains is not ready."""
        outcomes = {name: await _safely(check) for name, check in self._ready.items()}
        return {"accepting": not self.draining, **outcomes}


async def _safely(check: Check) -> bool:
    try:
        return await check()
    except Exception:
        return False


async def respond(health: Health, path: str, accept: str = "") -> Answer:
    """The answer for one of the three paths, else 404. Only OpenMetrics has exemplars."""
    if path == "/metrics":
        encode, content_type = choose_encoder(accept)
        return 200, content_type, encode(REGISTRY)
    if path in ("/healthz", "/readyz"):
        checks = await (health.alive() if path == "/healthz" else health.ready())
        ok = all(checks.values())
        body: dict[str, Any] = {"status": "ok" if ok else "failing", "checks": checks}
        if path == "/readyz" and (details := health.details()):
            body["details"] = details
        return (200 if ok else 503), "application/json", json.dumps(body).encode()
    return 404, "text/plain", b"try /healthz, /readyz or /metrics\n"


def health_app(health: Health) -> Callable[..., Awaitable[None]]:
    """The three paths as an ASGI application."""
    return app_of(lambda path, accept: respond(health, path, accept))


def app_of(answer: Callable[[str, str], Awaitable[Answer]]) -> Callable[..., Awaitable[None]]:
    """An ASGI application of what answers a path and the header Accept."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
        status, content_type, body = await answer(scope["path"], accept)
        headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app
