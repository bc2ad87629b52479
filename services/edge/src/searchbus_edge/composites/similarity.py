"""How near texts are to a question: cosines by the model of the retrieval service.

Composites score passages by words here and by meaning there. What cannot be had in time is done
without: an answer by words alone is better than none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opentelemetry import metrics

from searchbus_bus import Bus, Directory
from searchbus_contracts import Actor, Fault
from searchbus_contracts.retrieval import (
    MAX_COMPARED,
    MAX_COMPARED_CHARS,
    MAX_QUERY_CHARS,
    SimilarityReply,
    SimilarityRequest,
)

__all__ = ["Similarity"]

log = logging.getLogger("searchbus.edge")
_SERVICE = "retrieval"
_MOST_S = 5.0
_SHARE = 0.5
"""Of the time that is left."""
_missing = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.similarities.failed",
    description="Requests for the similarity of texts that failed; words alone decided.",
)


class Similarity:
    """Asks the retrieval service.

    Args:
        directory: shows whether the service is available.
    """

    def __init__(self, bus: Bus, directory: Directory) -> None:
        self._bus = bus
        self._directory = directory

    async def cosines(
        self, question: str, texts: Sequence[str], *, actor: Actor, timeout_s: float
    ) -> list[float] | None:
        """The cosine of each text; None where there are too many, or none can be had in time.

        Of a long text its beginning counts.
        """
        if not 0 < len(texts) <= MAX_COMPARED or not self._directory.listed(_SERVICE):
            return None
        request = SimilarityRequest(
            query=question[:MAX_QUERY_CHARS],
            texts=tuple(text[:MAX_COMPARED_CHARS] for text in texts),
        )
        try:
            reply = await self._bus.request(
                self._bus.subjects.endpoint(_SERVICE, "similarity"), request, SimilarityReply,
                service=_SERVICE, timeout_s=min(_MOST_S, timeout_s * _SHARE), actor=actor,
            )  # fmt: skip
        except Fault as fault:
            _missing.add(1, {"code": fault.code})
            log.info("passages are chosen by words alone: %s", fault)
            return None
        return list(reply.cosines) if len(reply.cosines) == len(texts) else None
