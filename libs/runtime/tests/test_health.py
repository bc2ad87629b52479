"""/healthz, /readyz and /metrics."""

from __future__ import annotations

import json

import httpx
import pytest

from searchbus_runtime import Health, health_app
from searchbus_runtime.health import respond


async def test_details_are_in_readyz_and_change_no_outcome():
    """Empty ones are left out."""
    health, damaged = Health(), {}
    health.add_detail("damaged", lambda: damaged)
    assert "details" not in json.loads((await respond(health, "/readyz"))[2])
    damaged["c"] = "cut"
    status, _, body = await respond(health, "/readyz")
    assert (status, json.loads(body)["details"]) == (200, {"damaged": {"c": "cut"}})


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


async def broken() -> bool:
    raise RuntimeError("the check itself fails")


@pytest.mark.parametrize(("check", "ok"), [(yes, True), (no, False), (broken, False)])
async def test_each_path_has_its_own_checks(check, ok):
    """503 where one fails; a check that raises has failed."""
    health = Health()
    health.add_liveness("worker", check)
    status, content_type, body = await respond(health, "/healthz")
    assert (200 if ok else 503, "application/json") == (status, content_type)
    assert {"status": "ok" if ok else "failing", "checks": {"worker": ok}} == json.loads(body)
    assert (await respond(health, "/readyz"))[0] == 200
    health.add_readiness("bus", check)
    status, _, body = await respond(health, "/readyz")
    assert (200 if ok else 503) == status
    assert {"accepting": True, "bus": ok} == json.loads(body)["checks"]


async def test_draining_process_is_alive_but_not_ready():
    """So that it is sent no more requests, and is not restarted either."""
    health = Health()
    health.draining = True
    assert (await respond(health, "/healthz"))[0] == 200
    status, _, body = await respond(health, "/readyz")
    assert (status, json.loads(body)["checks"]) == (503, {"accepting": False})


async def test_application_serves_the_paths():
    """Metrics in Prometheus' format; a sentence for any other path."""
    transport = httpx.ASGITransport(health_app(Health()))
    async with httpx.AsyncClient(transport=transport, base_url="http://health") as http:
        assert (await http.get("/healthz")).status_code == 200
        metrics = await http.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain")
        assert "python_info" in metrics.text
        other = await http.get("/other")
        assert (other.status_code, other.text) == (404, "try /healthz, /readyz or /metrics\n")


async def test_prometheus_gets_openmetrics_where_it_asks_for_it():
    """Which has exemplars; everyone else gets the plain text."""
    _, plain, _ = await respond(Health(), "/metrics")
    assert plain.startswith("text/plain")
    asked = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    _, content_type, body = await respond(Health(), "/metrics", asked)
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
