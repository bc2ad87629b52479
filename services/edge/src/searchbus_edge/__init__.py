"""The MCP edge: serves MCP to clients and sends their requests over the bus to workers."""

from searchbus_contracts.services import Container, Service

__all__ = ["SERVICE"]

SERVICE = Service(
    name="edge",
    description="The MCP edge: endpoints for clients, composites of several services.",
    start="searchbus_edge.service:start",
    settings="searchbus_edge.settings:EdgeSettings",
    toolsets=("bulk", "connector", "lazy"),
    calls=(
        "tool.>",
        "resource.>",
        "prompt.>",
        "retrieval.search",
        "retrieval.get",
        "retrieval.quote",
        "retrieval.similarity",
        "toolindex.search",
        "attach.status",
        "attach.manage",
        "retrieval.list",
        "retrieval.delete",
    ),
    follows_catalog=True,
    buckets=("limits", "budgets", "edge_files", "edge_tasks"),
    signs_callers=True,
    queue_group="connector",
    container=Container(
        cpu="500m",
        cpu_limit="2",
        memory="256Mi",
        memory_limit="512Mi",
        replicas=None,
        volume="edge",
    ),
)
