"""DuckDuckGo: web search and instant answers, paced, by a fleet of egress addresses."""

from searchbus_contracts.services import Container, Service

__all__ = ["SERVICE"]

SERVICE = Service(
    name="ddg",
    description="DuckDuckGo: web search and instant answers.",
    start="searchbus_ddg.service:start",
    settings="searchbus_ddg.settings:DdgSettings",
    toolsets=("ddg",),
    endpoints=("search", "fetch", "engine", "engines"),
    calls=("ddg.fetch",),
    buckets=("ddg_leases", "ddg_refusals", "ddg_answers", "ddg_fetches"),
    preload=("searchbus_upstream.cache", "searchbus_upstream.guard", "searchbus_upstream.http"),
    container=Container(
        cpu="50m",
        cpu_limit="500m",
        memory="128Mi",
        memory_limit="256Mi",
        replicas=None,
        internet=True,
    ),
)
