"""How probable it is that a hit answers the question: an absolute number, unlike its score."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec
from msgspec import Struct
from opentelemetry import trace
from opentelemetry.context import Context

from searchbus_contracts.retrieval import SearchHit
from searchbus_vectors import Embedder, Point, QueryVectors, VectorStore, terms

from ..documents.records import is_live, is_live_chunk, point_id
from ..question.date_words import DATE_WORD
from ..question.periods import Period

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


_BIAS = -5.7
_DISTANCE, _LEAST_DISTANCE, _MOST_DISTANCE = 1.65, -1.0, 4.0
"""Weight of the cosine's distance from the collection's background, in its spreads."""
_SHARE = 1.1
"""Weight of the share of the question's words in the passage, by their rarity."""
_MASS, _MASS_SCALE = 1.05, 4.5
"""Weight of the sum of their rarity: two rare ones say more than two frequent ones."""
_ALL_FOUND, _LEAST_WORDS = 1.5, 2
"""Where the passage has every word of a question of at least so many, and none of its dates is
outside of the collection."""
_IN_PERIOD, _IN_LONG_PERIOD, _LONG_DAYS = 1.6, 0.6, 100
_OUTSIDE, _YEAR_IN_TEXT = -4.4, 0.75
"""The question names a date at which no document is; a passage that names the year may answer."""
_NO_SUCH_NAME = -2.1
_NO_SUCH_WORD, _FEW_WORDS, _ALL_WORDS = -1.5, 1.2, 4.0
"""Words that the collection lacks count wholly from 10 ** 4 passages on: the vocabulary of a small
collection says little, and an answer in other words is made up for."""
_FULL_NAME, _NAME_RARITY = 1.8, 5.0
"""Where the passage has a name of two words, with or without initials between them, of which one is
not in every passage: names say little to the model."""
_DENIED = 0.1
"""At most, where the question takes for granted what the facts deny, such as a vote."""
_OF_OTHERS = -4.0
"""The question is about one whom the documents are not about, and the passage does not name it."""
_ORDERED = 1.0
"""The question asks for the first or the latest of a type of documents that it names."""
_STATES_FACT = 1.5
"""It states a fact of the date that the question asks for, such as a vote: names and numbers, which
say little to the model."""
_LITERAL = 0.9
"""At least, where the question stands in the passage word for word."""
_ASKING = frozenset(
    "anybody anyone anything describe explain find give happen happened list mention mentioned "
    "please said say says show somebody someone something summarise summarize tell told".split()
)
"""Words that say how something is asked, not what."""
_FOREIGN_SHARE, _FOREIGN_STEEPNESS, _FOREIGN_BIAS = 0.5, 40.0, -0.85
"""From this share of words that the collection lacks on, a question to a model of many languages
may be in another one than the passages: no word says anything then, nor do English unrelated
questions, and the cosine alone counts. At the model's sure one it is just a match."""
_ENGLISH = frozenset(
    "and are did do does for from how that the this to what when where which who why with".split()
)
"""Words that show a question to be in English, of which other languages have none."""
_MAX_TEXT_CHARS, _MAX_VALUE_CHARS = 10_000, 200
"""Text that is read of a passage, ten times a usual one, and of each value of its metadata."""
_NAME = re.compile(r"\b[A-Z]\w*|\b\w*\d\w*")
_PAIR = re.compile(r"\b([A-Z][a-z]+)(?=\s+(?:[A-Z]\.\s*){0,2}([A-Z][a-z]+)\b)")
_MOST_NAMES = 6
_SURE_NAME = re.compile(r"[A-Z]{2,}|\w*\d")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Dated:
    """The dates that a question names.

    Args:
        field: metadata field with a document's date.
        outside: whether the collection has no document at these dates or near them.
    """

    field: str
    periods: Sequence[Period]
    outside: bool

    def evidence(self, hit: SearchHit) -> float:
        """What it says for a hit that its document is of one of the periods; 0 where it is not."""
        day = str(hit.metadata.get(self.field))[:10]
        days = [period.days for period in self.periods if day in period]
        if not days:
            return 0.0
        return _IN_PERIOD if min(days) <= _LONG_DAYS else _IN_LONG_PERIOD

    @property
    def years(self) -> set[str]:
        """The years that the periods begin in."""
        return {str(period.start.year) for period in self.periods}


class Probability:
    """The probability of each hit of one question to one collection.

    Args:
        best: word id → the best BM25 score that any passage has for it.
        dated: None where the question names no date, or the documents have none.
        ordered: whether it asks for the first or the latest of a type that it names.
        stating: ids of passages with the facts that it asks for.
        replaced: stems for which the collection has other words; that it lacks them says nothing.
        denied: whether the facts say that it is not as the question takes for granted, or there was
            no meeting in the month that it names.
        others: finds the names of each of those whom the documents are not about.
    """

    def __init__(
        self,
        query: str,
        embedder: Embedder,
        best: Mapping[int, float],
        background: NoiseBackground,
        dated: Dated | None,
        *,
        ordered: bool = False,
        stating: Collection[str] = (),
        replaced: Collection[str] = (),
        denied: bool = False,
        others: Sequence[re.Pattern[str]] = (),
    ) -> None:
        self._background = background
        self._dated = dated
        self._most = _DENIED if denied else 1.0
        self._stating = stating
        self._others = [names for names in others if names.search(query)]
        self._rarest = 2.2 * math.log(1 + (background.passages + 0.5) / 0.5)
        """What `best` would be for a word that one passage has."""
        self._rarity: dict[str, float] = {}
        telling: set[str] = set()
        lacking_names = lacking_words = 0.0
        # With a capital, except the first word, which has it anyway; acronyms and numbers.
        names = {m[0] for m in _NAME.finditer(query) if m.start() or _SURE_NAME.match(m[0])}
        for word in _WORD.findall(query):
            if not (stems := terms(word)) or stems[0] in self._rarity:
                continue
            if word.lower() in _ASKING or (dated and DATE_WORD.fullmatch(word.lower())):
                continue
            rarity = max((best.get(i, 0.0) for i in embedder.words(word).indices), default=0.0)
            if not rarity and stems[0] in replaced:
                continue
            self._rarity[stems[0]] = rarity or self._rarest
            if rarity >= _NAME_RARITY:
                telling.add(word)
            if not rarity and word in names:
                lacking_names += self._rarest
            elif not rarity:
                lacking_words += self._rarest
        self._all = sum(self._rarity.values()) or 1.0
        vocabulary = min(1.0, math.log10(max(1, background.passages)) / _ALL_WORDS) ** 2
        self._of_question = (
            _BIAS
            + _NO_SUCH_NAME * lacking_names / self._all
            + _NO_SUCH_WORD * vocabulary * lacking_words / self._all
            + _FEW_WORDS * (1 - vocabulary)
            + _ORDERED * ordered
        )
        lacking = (lacking_names + lacking_words) / self._all
        is_english = not _ENGLISH.isdisjoint(_WORD.findall(query.lower()))
        is_foreign = lacking >= _FOREIGN_SHARE and not is_english
        self._foreign = embedder.sure_cosine if is_foreign else None
        self._full_names = [
            re.compile(rf"\b{first}\s+(?:[A-Z]\.\s*){{0,2}}{last}\b")
            for first, last in _PAIR.findall(query)[:_MOST_NAMES]
            if first in telling or last in telling
        ]

    def of(self, hit: SearchHit) -> float:
        """0..1; it reads the hit's text."""
        metadata = (str(value)[:_MAX_VALUE_CHARS] for value in hit.metadata.values())
        text = hit.text[:_MAX_TEXT_CHARS]
        there = set(terms(" ".join((hit.title, hit.section or "", text, *metadata))))
        found = sum(rarity for word, rarity in self._rarity.items() if word in there)
        whole = len(self._rarity) >= _LEAST_WORDS and self._rarity.keys() <= there
        distance = self._background.distance(hit.cosine)
        evidence = (
            self._of_question
            + _DISTANCE * max(_LEAST_DISTANCE, min(_MOST_DISTANCE, distance))
            + _SHARE * found / self._all
            + _MASS * math.log1p(_MASS_SCALE * found / self._rarest)
        )
        if self._foreign is not None:
            evidence = _FOREIGN_BIAS + _FOREIGN_STEEPNESS * (hit.cosine - self._foreign)
        if any(name.search(text) for name in self._full_names):
            evidence += _FULL_NAME
        if not all(names.search(text) for names in self._others):
            evidence += _OF_OTHERS
        if self._dated is not None and self._dated.outside:
            evidence += _OUTSIDE * (_YEAR_IN_TEXT if self._dated.years & there else 1.0)
        else:
            evidence += _ALL_FOUND * whole
            of_date = self._dated.evidence(hit) if self._dated is not None else 0.0
            evidence += of_date + _STATES_FACT * (of_date > 0 and hit.chunk_id in self._stating)
        probability = min(self._most, 1 / (1 + math.exp(-evidence)))
        return max(probability, _LITERAL) if hit.literal else probability
