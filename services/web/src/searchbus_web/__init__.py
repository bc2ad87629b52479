"""Web search and page extraction."""

from searchbus_contracts.services import Container, Service

__all__ = ["SERVICE"]

SERVICE = Service(
    name="web",
    description="Web search and page extraction.",
    start="searchbus_web.service:start",
    settings="searchbus_web.settings:WebSettings",
    toolsets=("web", "engines", "pages", "sites"),
    calls=("ddg.search", "ddg.engine", "ddg.engines", "browser.render"),
    calls_for=(("sites", ("retrieval.list", "retrieval.ingest", "retrieval.delete")),),
    buckets=(
        "web_pace",
        "web_answers",
        "web_fetches",
        "pages_answers",
        "pages_fetches",
        "web_hosts",
        "web_crawls",
    ),
    preload=("searchbus_upstream.cache", "searchbus_upstream.guard", "searchbus_upstream.http"),
    container=Container(
        cpu="250m", cpu_limit="2", memory="384Mi", memory_limit="1Gi", internet=True
    ),
)
