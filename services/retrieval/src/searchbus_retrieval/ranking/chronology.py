"""The first or the latest document that says something: "when was … first mentioned?"."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import Hit, terms

from ..question.date_words import MONTHS
from ..question.dates import dates_of
from ..question.periods import Period
from ..question.profiles import Profile
from ..question.words import Phrase, has_word, name_words, quoted
from .preferences import metadata, wanted_type
from .sentences import beginnings

_ORDER_LIFT = 1.0
"""How far the first by date is above the best match; the second by half, the next by a third."""
_BEHIND_BEST = 0.4
_COSINE_BEHIND_BEST = 0.2
"""A passage further behind the best does not take part in the order of dates."""
_SHARE_OF_WORDS = 0.85
"""A passage must have this share of the most of the question's words, by rarity, that any has."""
_SHARE_OF_LITERAL_WORDS = 0.7
"""The same where all have the rare words."""
_SHORT_CHARS = 4
"""A word of so few letters begins many others: `euro` is not Europe."""
_MONTHS = "|".join(MONTHS)
_FIRST = re.compile(
    r"\b(?:when|since when) (?:did|has|have) .{1,80}\b(?:begin|began|begun|start|started)\b"
    rf"|\b(?:first|earliest)\b(?!\s+(?:quarter|half|day|week|month|of\s+(?:{_MONTHS})))"
    r"(?!(?:\s+\w+){0,3}\s+(?:in|for)\s+(?:(?:more\s+than|over|nearly|almost|about|at\s+least)\s+)?"
    r"(?:a\s+|\w+\s+)?(?:years|decades?|months|generation)\b)",
    re.I,
)
"""Not "the first in ten years", which many are."""
_LATEST = re.compile(
    r"\b(?:latest|most recent(?:ly)?|newest|(?:when was|for) the last time"
    r"|final(?=\s+(?:time|mention|statement|minutes|meeting|document))"
    rf"|last(?!\s+(?:year|month|week|quarter|half|decade|time|{_MONTHS})))\b",
    re.I,
)
_BESIDE = re.compile(r"(?=\b(\w+)[\s-]+(?:\w\.?\s+)?(\w+))")
"""Two words with nothing between them but an initial."""
_EVENT_ORDER = frozenset({"first", "last"})
_COUNTRY = re.compile(r"\b(?:US|UK|EU|USA)\b")
"""Texts write "U.S.", and "us" is a word of its own; a country tells hardly any passage apart."""
_ASKING = frozenset(
    terms(
        "first earliest latest most recent newest final last time times when ever mention speak say"
        " says said"
        " appear come came up refer describe discuss discussion call contain include use using word"
        " one ones thing things find show give tell list name identify locate point"
        " phrase keep kept still raised begin began begun start started"
        " talk talked talks promise promised bring brought"
        " collection corpus archive database record records index"
        " document documents paper papers text"
        " meeting meetings topic note noted report reported wonder wondered"
        " somebody someone something anybody anyone anything whose whether get got getting"
        " might possible possibly possibility"
        " official officials policymaker policymakers"
    )
)
"""Words of such questions that say nothing of the passage."""
_TITLES = frozenset(
    "chair chairman chairwoman governor president vice secretary treasurer minister senator mr mrs"
    " ms dr".split()
)


@dataclass(frozen=True, slots=True)
class Order:
    """The question wants the first or the latest document that says something.

    Attributes:
        words: how the words begin that a passage should have → the word in the question.
        names: the beginnings of those with a capital.
        phrases: that it must have, where any passage has them.
        pairs: of words that follow each other in the question → finds them near each other.
        compounds: those of the pairs with nothing between them: climate change.
        full_names: those of the compounds that are the first and the last name of somebody.
        periods: in which the document is, where any passage is.
        wanted_type: value of the type field, where the question names it.
        until: years that the document says something will last to; it must name them.
    """

    profile: Profile
    wanted: Literal["first", "latest"]
    words: Mapping[str, str]
    phrases: tuple[Phrase, ...] = ()
    periods: tuple[Period, ...] = ()
    names: frozenset[str] = frozenset()
    pairs: Mapping[tuple[str, str], re.Pattern[str]] = field(default_factory=dict)
    compounds: tuple[tuple[str, str], ...] = ()
    full_names: frozenset[tuple[str, str]] = frozenset()
    wanted_type: str | None = None
    until: tuple[str, ...] = ()

    def apply(
        self,
        ranked: Sequence[Hit],
        shares: Mapping[str, float],
        rarity: Mapping[str, float],
        rare: Collection[str] = (),
        answers: Callable[[Hit], bool] = lambda hit: False,
    ) -> list[Hit]:
        """Raise the hits that match best, in the order of their dates.

        Args:
            shares: id → share of the question's quantities; only hits with the most take part.
            rarity: word → its weight.
            rare: words that hardly any passage has: what is asked about.
            answers: whether a hit states the facts that are asked for; where any does, only those
                take part.
        """
        chosen = self._chosen(ranked, shares, rarity, rare, answers)
        dates = sorted({self._date(hit) for hit in chosen}, reverse=self.wanted == "latest")
        places = {date: place for place, date in enumerate(dates)}
        best = max((hit.score for hit in ranked), default=0.0)
        raised = {
            hit.id: hit.scored(best + _ORDER_LIFT / (1 + places[self._date(hit)])) for hit in chosen
        }
        # The sort is stable: passages of one date stay in their order.
        return sorted((raised.get(hit.id, hit) for hit in ranked), key=lambda hit: -hit.score)

    def _chosen(
        self,
        ranked: Sequence[Hit],
        shares: Mapping[str, float],
        rarity: Mapping[str, float],
        rare: Collection[str],
        answers: Callable[[Hit], bool],
    ) -> list[Hit]:
        cosine_floor = max((hit.cosine for hit in ranked), default=0.0) - _COSINE_BEHIND_BEST
        found = [
            hit
            for hit in ranked
            if (rare or hit.cosine >= cosine_floor)
            and self._date(hit)
            and self.wanted_type in (None, metadata(hit, self.profile.type_field))
        ]
        found = [hit for hit in found if any(self._date(hit) in p for p in self.periods)] or found
        named = [hit for hit in found if all(has_word(hit.payload["text"], y) for y in self.until)]
        found = named or found
        floor = max((hit.score for hit in ranked), default=0.0) - _BEHIND_BEST
        near = [hit for hit in found if hit.score >= floor or self.says_all(hit.payload)]
        stated = [hit for hit in found if answers(hit)]
        found = stated or found
        quoted = self._with_phrases(found)
        # One quoted word is a word of what is asked about, not all of it.
        exact = any(phrase.has_words for phrase in self.phrases) and quoted
        exact = exact or self._with_names(found, rare)
        literal = exact or quoted or self._with_rare_words(found, rarity, rare)
        found = literal or near
        most = max((shares.get(hit.id, 0.0) for hit in found), default=0.0)
        found = [hit for hit in found if shares.get(hit.id, 0.0) == most]
        if exact:
            return found
        pairs = self.compounds if literal else self.pairs
        weights = {hit.id: self._weight(hit, rarity, pairs) for hit in found}
        share = _SHARE_OF_LITERAL_WORDS if literal or stated else _SHARE_OF_WORDS
        least = share * max(weights.values(), default=0.0)
        return [hit for hit in found if weights[hit.id] >= least]

    def says_all(self, payload: Mapping[str, Any]) -> bool:
        """Whether it says what is asked about, in words near each other, and much else beside."""
        text = f"{payload['title']} {payload['text']}".lower()
        return (
            bool(self.words)
            and all(self._says(text, word) for word in self.words)
            and all(pattern.search(text) for pattern in self.pairs.values())
        )

    def _says(self, text: str, start: str) -> bool:
        """Whether the text has a word that begins so; a short one may only have a letter more."""
        if not has_word(text, start):
            return False
        is_short = len(start) <= _SHORT_CHARS and self.words[start] == start
        return not is_short or _ending(start, 1).search(text) is not None

    def _with_phrases(self, hits: list[Hit]) -> list[Hit]:
        if not self.phrases:
            return []
        return [hit for hit in hits if all(p.stands_in(*_texts(hit)) for p in self.phrases)]

    def _with_names(self, hits: list[Hit], rare: Collection[str]) -> list[Hit]:
        """The hits with all rare names: of the problems of Greece, Greece is what it is about.

        Of a first name that is rare the last name must stand beside it.
        """
        names = [_ending(word) for word in self.words if word in rare and word in self.names]
        if not names:
            return []
        names += [
            full
            for pair, full in self.pairs.items()
            if pair in self.full_names and not set(pair).isdisjoint(rare)
        ]
        return [hit for hit in hits if all(n.search(" ".join(_texts(hit)).lower()) for n in names)]

    def _with_rare_words(
        self, hits: list[Hit], rarity: Mapping[str, float], rare: Collection[str]
    ) -> list[Hit]:
        """The hits with all rare words, or with those that weigh most."""
        wanted = [word for word in self.words if word in rare]
        weights: dict[str, float] = {}
        for hit in hits if wanted else ():
            text = " ".join(_texts(hit)).lower()
            weights[hit.id] = sum(
                rarity.get(word, 0.0) for word in wanted if self._says(text, word)
            )
        most = max(weights.values(), default=0.0)
        return [hit for hit in hits if most and weights[hit.id] == most]

    def _weight(
        self, hit: Hit, rarity: Mapping[str, float], pairs: Collection[tuple[str, str]]
    ) -> float:
        text = " ".join(_texts(hit)).lower()
        there = {word for word in self.words if has_word(text, word)}
        weight = sum(rarity.get(word, 0.0) for word in there)
        for word, following in pairs:
            pattern = self.pairs[word, following]
            if word in there and following in there and pattern.search(text):
                weight += (rarity.get(word, 0.0) + rarity.get(following, 0.0)) / 2
        return weight

    def _date(self, hit: Hit) -> str:
        return metadata(hit, self.profile.date_field)


def order_of(profile: Profile, fields: Mapping[str, FieldType], question: str) -> Order | None:
    """The order that the question asks for, if it does and the documents have dates."""
    if profile.date_field is None or profile.date_field not in fields:
        return None
    first, latest = _FIRST.search(question), _LATEST.search(question)
    # "The last meeting before July 2023" has a date; nothing is to be put in an order.
    dates = dates_of(question)
    if bool(first) == bool(latest) or dates.beside:
        return None
    # "Greenspan's last meeting" is an event, which has its time.
    if any(not _EVENT_ORDER.isdisjoint(said) for said in profile.dated_phrases.said_in(question)):
        return None
    rest = _COUNTRY.sub(" ", question)
    for pattern in profile.named.values():
        rest = pattern.sub(" ", rest)
    wanted = wanted_type(profile, fields, question)
    for word in profile.subject:
        rest = re.sub(rf"\b{re.escape(word)}\b", " ", rest)
    words = _telling(rest)
    capitals = frozenset(start for name in name_words(rest) for start in _telling(name))
    pairs = {pair: _near(*pair) for pair in pairwise(words)}
    beside = {*_BESIDE.findall(rest.lower())}
    compounds = tuple(pair for pair in pairs if tuple(words[word] for word in pair) in beside)
    return Order(
        profile,
        "first" if first else "latest",
        words,
        tuple(quoted(question)),
        dates.periods,
        capitals,
        pairs,
        compounds,
        frozenset(
            pair
            for pair in compounds
            if capitals.issuperset(pair) and _TITLES.isdisjoint(words[name] for name in pair)
        ),
        wanted.value if wanted is not None and wanted.named else None,
        tuple(
            str(limit.last_day.year)
            for limit in dates.limits
            # What ended before is reported, not promised: "inflation through November".
            if limit.before and all(period.start <= limit.last_day for period in dates.periods)
        ),
    )


def _telling(text: str) -> dict[str, str]:
    """The beginnings of the words that say what the passage should have."""
    found = beginnings(text).items()
    return {
        start: word
        for start, word in found
        if not word.isdecimal() and _ASKING.isdisjoint(terms(word))
    }


def _near(word: str, following: str) -> re.Pattern[str]:
    """Finds two words in this order, with at most two others between them."""
    return re.compile(rf"\b{re.escape(word)}\w*\W+(?:\w+\W+){{0,2}}{re.escape(following)}")


@lru_cache(1_000)
def _ending(start: str, most: int = 3) -> re.Pattern[str]:
    """Finds a word that begins so and is hardly longer: the Fed is not all that is federal."""
    return re.compile(rf"\b{re.escape(start)}\w{{0,{most}}}\b")


def _texts(hit: Hit) -> tuple[str, str]:
    return hit.payload["title"], hit.payload["text"]
