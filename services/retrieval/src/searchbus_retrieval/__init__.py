"""Documents in Qdrant: ingest, hybrid search, whole documents."""
