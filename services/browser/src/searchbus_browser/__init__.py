"""Runs the scripts of pages whose text is written by JavaScript, in a Chromium."""

from searchbus_contracts.services import Container, Service

__all__ = ["SERVICE"]

SERVICE = Service(
    name="browser",
    description="Pages that need JavaScript, in a Chromium.",
    start="searchbus_browser.service:start",
    settings="searchbus_browser.settings:BrowserSettings",
    endpoints=("render",),
    # The file is Chromium itself: naming it is what turns the service on.
    started_by=("SEARCHBUS_BROWSER_CHROMIUM", "chromium"),
    preload=("searchbus_upstream.guard",),
    container=Container(
        cpu="500m", cpu_limit="2", memory="512Mi", memory_limit="2Gi", replicas=0, internet=True
    ),
)
