"""Documents in Qdrant: ingest, hybrid search, whole documents."""

from searchbus_contracts.services import Container, Service

__all__ = ["SERVICE"]

SERVICE = Service(
    name="retrieval",
    description="Documents in Qdrant: hybrid search, whole documents, ingest.",
    start="searchbus_retrieval.service:start",
    settings="searchbus_retrieval.settings:RetrievalSettings",
    toolsets=("fomc", "memory"),
    resources=("documents",),
    endpoints=(
        "search",
        "get",
        "quote",
        "similarity",
        "list",
        "ingest",
        "delete",
        "rebuild",
        "export",
        "restore",
    ),
    scalable_with="SEARCHBUS_QDRANT_URL",
    preload=("searchbus_vectors.preload",),
    container=Container(cpu="500m", cpu_limit="2", memory="768Mi", memory_limit="2Gi"),
)
