"""A question to one collection, read once: phrase, quantities, names, dates, types, order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import AllOf, DateRange, Equals, Filter, Hit

from ..question.date_words import DATE_WORD
from ..question.dates import dates_of
from ..question.periods import Period
from ..question.profiles import Profile
from ..question.quantities import Quantities, with_digits
from ..question.words import (
    Directions,
    Phrase,
    Synonyms,
    has_word,
    is_name_in,
    name_words,
    opening_words,
    quoted,
)
from .asked_facts import AskedFacts, Premise
from .chronology import order_of
from .events import choose_within_events, raise_earliest
from .preferences import (
    dated,
    in_order,
    metadata,
    preferences,
    reported_in,
    wanted_type,
    within,
)
from .sentences import Sentences, asks_for_money, asks_for_number, beginnings

LITERAL_LIFT = 1.0
"""As much as the best score without any lift."""
QUOTATION_LIFT = 4.0
"""For a query of many words that stands in the passage: more than all other lifts together."""
QUANTITIES_LIFT = 0.3
"""For every quantity of the query, and as much again if the document has them all."""
NAMES_LIFT = 0.4
"""For every rare name of the query."""
SENTENCE_LIFT = 0.3
"""For a sentence with every word of the query; where it asks for a number, one with a number."""
COMPARED_LIFT = 0.1
"""For the later one of two documents that are compared."""
SHORT_LOSS, _LEAST_CHARS = 0.4, 120
"""For a passage of fewer characters, such as a closing line."""
SPREAD = 0.94
"""What is left of a passage's score for each better passage of its document."""
REPEAT = 3
"""A passage with the text of a better one counts as so many of its document."""
_OUTSTANDING = 1.5
"""So many times as much as any other word weighs the one that a question in order is about, where
it has no rare word."""
_CANDIDATES, _MORE_CANDIDATES = 60, 100
"""More where the order of dates decides: words and meaning put the right passage further down."""


class Question:
    """What the ranking takes from a query.

    Args:
        query: as the caller wrote it.
        profile: of the collection.
        fields: of the collection; what the profile says of others does not count.
        facts: fields that were read of its documents.

    Attributes:
        preferences: documents that it seems to mean.
        premise: what it takes for granted of the facts.
        beside: dates next to which it looks; `take_days` takes what they stand for, the `days`.
        date_path: where a passage's payload has the date.
        may_quote: whether it is long enough to be a quotation.
        candidates: passages that each search should contribute.
        words: the ranking needs to know how rare they are, see `weigh`.
        own_words: all words of the query but stopwords, in small letters; see `weigh`.
        replaced: stems for which the profile has other words, or the time of an event.
    """

    def __init__(
        self,
        query: str,
        profile: Profile,
        fields: Mapping[str, FieldType],
        facts: Mapping[str, FieldType] = MappingProxyType({}),
    ) -> None:
        self.query = query
        self.preferences = preferences(profile, fields, query)
        self._asked = AskedFacts.of(profile, facts, query)
        self._profile = profile
        self._wanted = wanted_type(profile, fields, query)
        self.date_field = profile.date_field if profile.date_field in fields else None
        self._has_events = profile.date_field in fields
        self._dates = dates = dates_of(query)
        self._has_dates = self._has_events and bool(dates.periods)
        self.date_path = f"m.{profile.date_field}"
        if self._asked is not None:
            asked = self._asked.preference
            if self._has_dates:
                asked = asked.first_of(within(self.date_path, *dates.periods))
            self.preferences.append(asked)
        self.premise = Premise.of(profile, facts, query, self.date_path)
        self.beside = dates.beside if self._has_events else ()
        self.days: tuple[Period, ...] = ()
        self._phrase = Phrase(query)
        self._quoted = quoted(query)
        self._quantities = Quantities(query)
        self._directions = Directions(profile.opposites, query)
        self._order = order_of(profile, fields, with_digits(query))
        self.synonyms = Synonyms(profile.phrases, query)
        events = profile.dated_phrases.said_in(query)
        self.replaced = self.synonyms.replaced.union(*events)
        self._opening = opening_words(query)
        order_words = self._order.words.values() if self._order is not None else ()
        self._all_names = [
            name
            for name in dict.fromkeys([*name_words(query), *self._opening])
            if name not in profile.subject
        ]
        words = [*self._all_names, *order_words]
        self.words = list(dict.fromkeys(words))
        own = beginnings(query).values()
        # The dates have found the documents; their sentences need not repeat them.
        found = self._has_dates and not (reported_in(dates) and asks_for_number(query))
        self.own_words = [w for w in own if not (found and DATE_WORD.fullmatch(w))]
        self._sentences = Sentences({})
        self.may_quote = self._phrase.is_long
        self.candidates = _CANDIDATES if self._order is None else _MORE_CANDIDATES
        self._names: list[str] = []
        self._order_rarity: dict[str, float] = {}
        self._order_rare: frozenset[str] = frozenset()
        self._rarity: Mapping[str, float] = {}
        self._shares: dict[str, float] = {}

    @property
    def spelled(self) -> str:
        """The query with its fractions in the usual spelling, so that they weigh more as words."""
        return " ".join((self.query, *self._quantities.spellings))

    @property
    def looks_far(self) -> bool:
        """Whether more passages should be read: what they say decides about their order."""
        return self._order is not None or self._asked is not None or bool(self._quantities)

    def weigh(self, rarity: Mapping[str, float], rare: Collection[str]) -> None:
        """Take the weights of `words` and `own_words`, and which of them hardly any passage has.

        Args:
            rarity: word → the best score that any passage has for it.
        """
        self._rarity = rarity
        self._sentences = Sentences(
            {word: rarity.get(word, 0.0) for word in self.own_words},
            with_number=asks_for_number(self.query),
            with_money=asks_for_money(self.query),
        )
        starts = self._order.words if self._order is not None else {}
        self._order_rarity = {start: rarity.get(word, 0.0) for start, word in starts.items()}
        self._order_rare = frozenset(start for start, word in starts.items() if word in rare)
        if not self._order_rare:
            self._order_rare = _outstanding(self._order_rarity)
        self._names = [name for name in self._all_names if name in rare]

    @property
    def sought_words(self) -> str:
        """Rare words that the first or the latest document must have; empty: there are none."""
        if self._order is None:
            return ""
        if self._quoted:
            return " ".join(phrase.text for phrase in self._quoted)
        words = sorted(w for start, w in self._order.words.items() if start in self._order_rare)
        return " ".join([*words, self.synonyms.words]).rstrip()

    @property
    def order_words(self) -> str:
        """All words that the first or the latest document should have."""
        return "" if self._order is None else " ".join(self._order.words.values())

    def read(self, texts: Collection[str]) -> None:
        """Take the candidates' texts: the first word of a question is a name where it is there."""
        wrong = [w for w in self._names if w in self._opening and not is_name_in(texts, w)]
        self._names = [name for name in self._names if name not in wrong]

    def take_days(self, days: Sequence[Period]) -> None:
        """Take the days that `beside` stands for in the collection."""
        if days:
            self.preferences.append(dated(self.date_path, days))
            self._has_dates = True
            self.days = tuple(days)

    def is_literal(self, hit: Hit) -> bool:
        """Whether the query, or every phrase that it quotes, stands in it word for word."""
        texts = hit.payload["text"], hit.payload["title"]
        if self._quoted and all(phrase.stands_in(*texts) for phrase in self._quoted):
            return True
        return self._phrase.stands_in(*texts)

    @property
    def order(self) -> Literal["first", "latest"] | None:
        """Which document by date the question asks for."""
        return None if self._order is None else self._order.wanted

    def beyond(self, hits: Sequence[Hit]) -> Filter | None:
        """Documents before the first of the hits, or after the latest, of the type and the time
        that it must have; None where the question does not ask for either."""
        if self._order is None or not hits:
            return None
        date = metadata(hits[0], self.date_field)
        if not date:
            return None
        first = self._order.wanted == "first"
        limits: list[Filter] = [DateRange(self.date_path, **{"lt" if first else "gt": date})]
        if self._order.periods:
            limits.append(within(self.date_path, *self._order.periods))
        if self._order.wanted_type is not None:
            limits.append(Equals(f"m.{self._profile.type_field}", self._order.wanted_type))
        return AllOf(tuple(limits))

    @property
    def asks_in_order(self) -> bool:
        """Whether it asks for the first or the latest of a type that it names."""
        return self._order is not None and self._wanted is not None and self._wanted.named

    def lifts(self, hit: Hit) -> dict[str, float]:
        """What the passage's own text adds to its score, by reason."""
        return {
            "literal": self._literal_lift(hit),
            "names": NAMES_LIFT * self._share_of_names(hit),
            "quantities": QUANTITIES_LIFT * self._share_of_quantities(hit),
            "sentence": SENTENCE_LIFT * self._sentences.share_in(hit.payload["text"]),
            "compared": COMPARED_LIFT if self._is_compared(hit) else 0.0,
            "short": -SHORT_LOSS if self._is_bare(hit) else 0.0,
        }

    def lift(self, hit: Hit) -> float:
        """The sum of its `lifts`."""
        return sum(self.lifts(hit).values())

    def ordered(self, ranked: Sequence[Hit]) -> list[Hit]:
        """The hits in the order that documents, types, events and dates give them."""
        shares = {hit.id: self._share_of_quantities(hit) for hit in ranked}
        hits = self._by_document(ranked, shares) if self._quantities else list(ranked)
        if self._wanted is not None and self._has_events:
            hits = choose_within_events(hits, self._profile, self._wanted)
            repeats = self._profile.types[self._wanted.value].repeats
            if self._quantities and repeats and not self._has_dates and self._order is None:
                hits = raise_earliest(hits, self._profile, self._wanted, shares)
        if self._order is not None:
            hits = self._order.apply(
                hits, shares, self._order_rarity, self._order_rare, self._answers
            )
        return _spread(_without_repeats(hits))

    def is_asked_fact(self, hit: Hit) -> bool:
        """Whether it states facts that the question asks for."""
        return self._asked is not None and self._asked.states(hit)

    def _answers(self, hit: Hit) -> bool:
        return self._asked is not None and self._asked.answers(hit)

    def _is_compared(self, hit: Hit) -> bool:
        """Whether it is of the later date of two: it says what changed."""
        later = self._dates.compared
        if later is None or not self._has_events:
            return False
        return metadata(hit, self.date_field)[:10] in later

    def _is_bare(self, hit: Hit) -> bool:
        """Whether the lifts of its document alone would put it first: it says nothing itself."""
        return bool(self.preferences) and len(hit.payload["text"]) < _LEAST_CHARS

    def _literal_lift(self, hit: Hit) -> float:
        if self._quoted and self._dates.quotes_old:
            return 0.0  # the later document lacks them
        if self.is_literal(hit):
            return QUOTATION_LIFT if self._phrase.is_long and not self._quoted else LITERAL_LIFT
        return QUOTATION_LIFT / 2 * self._phrase.part_in(hit.payload["text"])

    def _share_of_names(self, hit: Hit) -> float:
        if not self._names:
            return 0.0
        text = f"{hit.payload['title']} {hit.payload['text']}"
        there = sum(self._rarity[name] for name in self._names if has_word(text, name))
        return there / sum(self._rarity[name] for name in self._names)

    def _share_of_quantities(self, hit: Hit) -> float:
        if not self._quantities:
            return 0.0
        if hit.id not in self._shares:
            counts = self._directions.agree if self._directions else None
            texts = hit.payload["title"], hit.payload["text"]
            self._shares[hit.id] = self._quantities.share_in(*texts, counts=counts)
        return self._shares[hit.id]

    def _by_document(self, ranked: Sequence[Hit], shares: Mapping[str, float]) -> list[Hit]:
        """Every passage of a document gains by its passage with the most quantities."""
        most: dict[str, float] = {}
        for hit in ranked:
            key = hit.payload["document_id"]
            most[key] = max(most.get(key, 0.0), shares[hit.id])
        return in_order(
            hit.scored(hit.score + QUANTITIES_LIFT * most[hit.payload["document_id"]])
            for hit in ranked
        )


def _outstanding(rarity: Mapping[str, float]) -> frozenset[str]:
    """The word that is much rarer than all others; empty: there is none, or no passage has any."""
    ranked = sorted(rarity, key=rarity.__getitem__, reverse=True)
    second = rarity[ranked[1]] if len(ranked) > 1 else 0.0
    return frozenset(w for w in ranked[:1] if 0.0 < rarity[w] >= _OUTSTANDING * second)


def _without_repeats(hits: Sequence[Hit]) -> list[Hit]:
    """Without the worse of a fact's passage and the one around it: mostly the same text."""
    kept: list[Hit] = []
    places: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    for hit in hits:
        start, end = hit.payload.get("start"), hit.payload.get("end")
        if start is not None and end is not None:
            document, is_fact = hit.payload["document_id"], "fact" in hit.payload
            taken = places.get((document, True), [])
            if is_fact:
                taken = taken + places.get((document, False), [])
            if any(2 * (min(end, e) - max(start, s)) > min(end - start, e - s) for s, e in taken):
                continue
            places.setdefault((document, is_fact), []).append((start, end))
        kept.append(hit)
    return kept


def _spread(hits: Sequence[Hit]) -> list[Hit]:
    """Lower the second passage of a document a little, the third more, so that others follow.

    The same text in a second document says nothing new either.
    """
    passages: defaultdict[str, int] = defaultdict(int)
    lowered = []
    for hit in hits:
        document, text = hit.payload["document_id"], hit.payload["text"]
        before = max(passages[document], REPEAT * passages[text])
        passages[document] += 1
        passages[text] += 1
        lowered.append(hit.scored(hit.score * SPREAD**before) if before else hit)
    return sorted(lowered, key=lambda hit: -hit.score)  # equal ones stay in their order
