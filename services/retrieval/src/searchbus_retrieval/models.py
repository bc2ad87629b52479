"""The embedders of the service by the name of their model; each is loaded at its first use.

    models = Models(embedder, chosen={"wiki": "intfloat/multilingual-e5-small"}, load=load)
    models.of_new("wiki")                       # the model that a new collection gets
    await models.embedder("fomc", schema.model)

A collection keeps the model that it was made with: its queries and its further documents are
embedded with that one, whatever the settings say now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from searchbus_contracts import ErrorCode, Fault
from searchbus_vectors import Embedder, ModelNotFound, QueryCache

__all__ = ["Load", "Models"]

log = logging.getLogger("searchbus.retrieval")
Load = Callable[[str], Awaitable[Embedder]]
"""Loads the embedder of a model; raises ModelNotFound."""


class Models:
    """Belongs to one event loop; `default` is the embedder of collections without a choice.

    Args:
        embedder: of collections for which no model is chosen.
        chosen: collection → model of a new one; "*" stands for every other.
        load: for other models than the embedder's; None: there are no others.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        chosen: Mapping[str, str] | None = None,
        load: Load | None = None,
    ) -> None:
        self.default = embedder
        self._chosen = chosen or {}
        self._load = load
        self._loaded = {embedder.model: embedder}
        self._queries: dict[str, QueryCache] = {}
        self._loading = asyncio.Lock()

    def of_new(self, collection: str) -> str:
        """The name of the model that a new collection gets."""
        return self._chosen.get(collection) or self._chosen.get("*") or self.default.model

    async def embedder(self, collection: str, model: str) -> Embedder:
        """The embedder of a collection's model.

        Raises:
            Fault: unavailable; this service does not have the model.
        """
        if model not in self._loaded:
            async with self._loading:
                if model not in self._loaded:
                    self._loaded[model] = await self._load_other(collection, model)
        return self._loaded[model]

    async def queries(self, collection: str, model: str) -> QueryCache:
        """The embedder for queries, which keeps the latest; raises as `embedder`."""
        if model not in self._queries:
            embedder = await self.embedder(collection, model)
            self._queries.setdefault(model, QueryCache(embedder))
        return self._queries[model]

    async def close(self) -> None:
        """Close every embedder that was loaded here."""
        for embedder in self._loaded.values():
            if embedder is not self.default:
                await embedder.close()

    async def _load_other(self, collection: str, model: str) -> Embedder:
        if self._load is None:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"Collection '{collection}' holds vectors of {model}, but this service embeds with "
                f"{self.default.model}. Change SEARCHBUS_EMBEDDER back, or delete the collection "
                "and ingest it again.",
                retryable=False,
            )
        try:
            embedder = await self._load(model)
        except ModelNotFound as error:
            log.error("the model %s of collection %s: %s", model, collection, error)
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"Collection '{collection}' is embedded with {model}, which cannot be loaded. "
                f"{error}",
                retryable=False,
            ) from error
        log.info("loaded the model %s for collection %s", model, collection)
        return embedder
