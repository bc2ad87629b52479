"""The MCP edge: serves MCP to clients and sends their requests over the bus to workers."""

from searchbus_contracts.services import Service

__all__ = ["SERVICE"]

SERVICE = Service(
    name="edge",
    description="The MCP edge: endpoints for clients, composites of several services.",
    start="searchbus_edge.service:start",
    settings="searchbus_edge.settings:EdgeSettings",
    toolsets=("connector",),
    calls=("tool.>", "resource.>", "retrieval.*", "toolindex.search"),
    follows_catalog=True,
    buckets=("limits",),
    signs_callers=True,
    queue_group="connector",
)
