"""What unrelated questions find in a collection: how near a hit is by chance.

It is measured at ingest, or at the first search, and kept in the collection.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable, Sequence
from statistics import median

import msgspec
from msgspec import Struct
from opentelemetry import trace
from opentelemetry.context import Context

from searchbus_vectors import Embedder, Point, QueryVectors, VectorStore

from ..documents.records import is_live, is_live_chunk, point_id

log = logging.getLogger("searchbus.retrieval")
_tracer = trace.get_tracer("searchbus.retrieval")

_VERSION = 1
"""Version of the questions and of what is kept; another one is measured again."""
_SPREAD, _SPREAD_WEIGHT = 0.05, 20
"""Spread of the cosines of unrelated questions in most collections, as if of so many questions."""
_LEAST_SPREAD = 0.02
_OWN_QUESTIONS, _OWN_WORDS = 16, 14
_OWN_SPREADS = 2.0
"""Nine in ten of a collection's own sentences are at least so many spreads above the typical."""
_GROWN = 1.5
_CHECKED_S = 30.0
_QUIET_S = 1.0
"""Nothing was stored for so long: an ingest has ended, or waits for its reader."""
_WAIT_S = 3.0
"""A search waits no longer for the first measurement; then what most collections have counts."""
_CANDIDATES = 10
UNRELATED = (
    "how long should bread dough rise before it is baked",
    "which vitamins does a newborn baby need",
    "who won the last football world cup",
    "how to change a flat tyre on a bicycle",
    "cheap flights from Madrid to Lisbon in the summer holidays",
    "symptoms of a broken wrist",
    "what is the plot of Romeo and Juliet",
    "how do bees make honey",
    "rules for castling in chess",
    "best season to prune apple trees",
    "how far is the moon from the earth",
    "how to write a cover letter for a job as a nurse",
    "when was the Great Wall of China built",
    "why does my cat scratch the sofa",
    "learn to play the guitar as an adult",
    "what does a notary do when a house is sold",
    "train a neural network to recognise handwriting",
    "difference between a stack and a queue",
    "how are contact lenses cleaned",
    "history of the Ottoman Empire",
    "who painted the ceiling of the Sistine Chapel",
    "how to remove red wine from a carpet",
    "causes of the First World War",
    "how deep do whales dive",
    "which battery does this phone need",
    "lyrics of a sad love song from the nineties",
    "how is steel made from iron ore",
    "what is the capital of Mongolia",
    "how to train for a first marathon",
    "interest on a student loan after graduation",
    "how does an aeroplane wing make lift",
    "installing a printer driver on a laptop",
    "side effects of antibiotics in children",
    "recipe for a vegan chocolate cake",
    "how does photosynthesis work",
    "meaning of the seventh amendment",
    "which knots do climbers use",
    "opening hours of the city library",
    "how to calm a barking dog at night",
    "what is the speed of light in glass",
)
"""A collection may answer a few of them all the same: their median counts, not the nearest."""
_SENTENCE_END = re.compile(r"(?<=[.?!;:])\s+")


class NoiseBackground(Struct, frozen=True):
    """What unrelated questions find in one collection; the defaults are those of most.

    Args:
        typical: the median of their best cosines.
        spread: of these around it, as a standard deviation.
        passages: number of the collection's when it was measured.
    """

    typical: float = 0.53
    spread: float = _SPREAD
    passages: int = 1_000
    version: int = _VERSION

    def distance(self, cosine: float) -> float:
        """How far a cosine is above the typical one, in spreads."""
        return (cosine - self.typical) / self.spread

    def fits(self, passages: int) -> bool:
        """Whether a collection of so many passages needs no new measurement."""
        known = self.passages
        return self.version == _VERSION and known / _GROWN <= passages <= known * _GROWN


class Backgrounds:
    """The backgrounds of a store's collections. Belongs to one event loop.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, store: VectorStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, NoiseBackground] = {}
        self._checked_s: dict[str, float] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._asked: dict[str, list[QueryVectors]] = {}

    def forget(self, collection: str) -> None:
        """Call it when the collection is deleted."""
        if timer := self._timers.pop(collection, None):
            timer.cancel()
        self._known.pop(collection, None)
        self._checked_s.pop(collection, None)

    def changed(self, collection: str, embedder: Embedder) -> None:
        """Call it when passages were stored: they are measured before somebody searches them."""
        if timer := self._timers.get(collection):
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[collection] = loop.call_later(_QUIET_S, self._begin, collection, embedder)

    def _begin(self, collection: str, embedder: Embedder) -> None:
        self._timers.pop(collection, None)
        self._checked_s[collection] = self._clock()
        if collection not in self._running:
            task = asyncio.get_running_loop().create_task(self._refresh(collection, embedder))
            self._running[collection] = task
            task.add_done_callback(lambda _: self._running.pop(collection, None))

    async def of(self, collection: str, embedder: Embedder) -> NoiseBackground:
        """What is known of the collection; a first measurement is waited for, some seconds long."""
        checked_s = self._checked_s.get(collection)
        if checked_s is None or self._clock() - checked_s >= _CHECKED_S:
            self._begin(collection, embedder)
        running = self._running.get(collection)
        if running is not None and collection not in self._known:
            await asyncio.wait([running], timeout=_WAIT_S)
        return self._known.get(collection, NoiseBackground())

    async def _refresh(self, collection: str, embedder: Embedder) -> None:
        """Read what is kept, and measure anew where it does not fit any more."""
        try:
            passages = await self._store.count(collection, is_live_chunk)
            known = self._known.get(collection) or await self._kept(collection)
            if known is not None:
                self._known[collection] = known
            if passages and (known is None or not known.fits(passages)):
                # A trace of its own: a hundred spans in that of a search would hide the search.
                with _tracer.start_as_current_span("measure background", Context()):
                    measured = await self._measure(collection, embedder, passages)
                    self._known[collection] = measured
                    payload = {"kind": "background", **msgspec.to_builtins(measured)}
                    point = Point(point_id("background", collection), payload)
                    await self._store.upsert(collection, [point])
        except Exception as error:  # of either engine: a search answers without it
            log.warning("the background of %s was not measured or kept: %s", collection, error)

    async def _kept(self, collection: str) -> NoiseBackground | None:
        found = await self._store.get(collection, [point_id("background", collection)])
        try:
            return msgspec.convert(found[0].payload, NoiseBackground) if found else None
        except msgspec.ValidationError:  # of another release
            return None

    async def _measure(self, collection: str, embedder: Embedder, passages: int) -> NoiseBackground:
        if embedder.model not in self._asked:
            self._asked[embedder.model] = [await embedder.embed_query(q) for q in UNRELATED]
        unrelated = await self._best(collection, embedder, self._asked[embedder.model])
        typical = median(unrelated)
        deviation = 1.4826 * median(abs(cosine - typical) for cosine in unrelated)
        known = len(unrelated) * deviation**2 + _SPREAD_WEIGHT * _SPREAD**2
        spread = math.sqrt(known / (len(unrelated) + _SPREAD_WEIGHT))
        sentences = [await embedder.embed_query(s) for s in await self._sentences(collection)]
        own = sorted(await self._best(collection, embedder, sentences))
        if own:
            spread = min(spread, (own[len(own) // 10] - typical) / _OWN_SPREADS)
        # Rounded, so that what is kept is read as it was written.
        return NoiseBackground(round(typical, 4), round(max(_LEAST_SPREAD, spread), 4), passages)

    async def _best(
        self, collection: str, embedder: Embedder, asked: Sequence[QueryVectors]
    ) -> list[float]:
        best = []
        for query in asked:
            found = await self._store.match(
                collection, query, where=is_live, candidates=_CANDIDATES, best={}
            )
            cosines = [match.cosine for match in embedder.comparable(found)]
            best.append(max(cosines, default=0.0))
        return best

    async def _sentences(self, collection: str) -> list[str]:
        """Beginnings of sentences of passages from all over the collection."""
        found = []
        for number in range(_OWN_QUESTIONS):
            # Ids are hashes, so that places in their order are places at random.
            start_id = f"{number * 2**32 // _OWN_QUESTIONS:08x}-0000-5000-8000-000000000000"
            page = await self._store.scroll(
                collection, where=is_live_chunk, limit=1, start_id=start_id
            )
            for record in page.records:
                sentences = _SENTENCE_END.split(record.payload["text"])
                found.append(" ".join(max(sentences, key=len).split()[:_OWN_WORDS]))
        return [sentence for sentence in dict.fromkeys(found) if sentence]
