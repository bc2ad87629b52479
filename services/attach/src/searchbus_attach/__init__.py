"""Attaches MCP servers, local commands and remote addresses: each becomes a toolset on the bus."""

from searchbus_contracts.services import Container, Service

__all__ = ["SERVICE"]

SERVICE = Service(
    name="attach",
    description="Other MCP servers, each as a toolset.",
    start="searchbus_attach.service:start",
    settings="searchbus_attach.settings:AttachSettings",
    endpoints=("status", "manage"),
    # `searchbus attach list` runs beside the service where that is a container, with its key.
    calls=("attach.status",),
    attaches_toolsets=True,
    buckets=("attach_sessions", "attach-rests", "attach-consent"),
    started_by=("SEARCHBUS_ATTACH_FILE", "attach.toml"),
    container=Container(
        memory="128Mi", memory_limit="1Gi", replicas=0, internet=True, volume="attach"
    ),
)
