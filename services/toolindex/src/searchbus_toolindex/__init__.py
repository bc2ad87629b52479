"""Finds tools, prompts and resources among thousands, by meaning and by words."""

from searchbus_contracts.services import Container, Service

__all__ = ["SERVICE"]

SERVICE = Service(
    name="toolindex",
    description="Finds tools, prompts and resources by meaning.",
    start="searchbus_toolindex.service:start",
    settings="searchbus_toolindex.settings:ToolindexSettings",
    prompts=("research",),
    endpoints=("search",),
    follows_catalog=True,
    serves_every_endpoint=True,
    preload=("searchbus_vectors.preload",),
    container=Container(
        cpu="250m", cpu_limit="2", memory="512Mi", memory_limit="1Gi", volume="index"
    ),
)
