"""Budgets of a day (UTC) of each caller and of all: calls, what they cost, and their tokens.

Edges add what they served to common counts in the key-value store, once a second: a budget may be
exceeded by what is served in that time. While the store is unreachable, each edge counts on from
what it last knew, and adds that when the store is back.

A write whose reply does not come may be in the store. An entry keeps the number of each edge's last
write beside the counts, and an edge repeats a write as it was until it sees it there: it is added
once, also where another edge wrote in between.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from cachetools import LRUCache
from opentelemetry import metrics

from searchbus_bus import KeyValue, end_task
from searchbus_bus.store.keyvalue import write_over
from searchbus_bus.tasks import within
from searchbus_contracts import ErrorCode, Fault

log = logging.getLogger(__name__)
BUDGETS = {
    f"{scope}_{kind}": (scope, kind)
    for scope in ("caller", "tenant")
    for kind in ("calls", "costly_calls", "credits", "tokens")
}
"""Name → whose it is, and what is counted. The tenant is everyone who uses this installation."""
_UNITS = {"credits": 1000}
"""Counted in thousandths, since a page costs a part of a credit; all else one by one."""
UNREPORTED = (ErrorCode.DEADLINE_EXCEEDED, ErrorCode.CANCELLED)
"""Failures of calls that may have cost credits and do not say so."""
UNREPORTED_CREDITS = 1.0
"""What such a call to a costly tool counts, else a caller who leaves early would have no budget."""
BYTES_PER_TOKEN = 4
"""An average of English text for common tokenizers; good enough for a budget."""
_DAY_S = 86_400
_WRITE_EVERY_S = 1.0
_READ_WITHIN_S = 0.1
_ATTEMPTS = 5
_EDGE = "edge "
"""Before the id of an edge, whose last write's number is kept among the counts of an entry."""
_MOST_EDGES = 32
"""Kept in an entry: those that wrote last. One that restarts has another id."""
_MAX_OWNERS = 50_000
_refused = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.budget.refused", description="Calls that a budget of a day refused, by its name."
)


def tokens_of(size_bytes: int) -> int:
    """An estimate of the tokens of a text."""
    return math.ceil(size_bytes / BYTES_PER_TOKEN)


@dataclass(slots=True)
class Cost:
    """What paid providers took for a call, however it ends."""

    credits: float = 0.0


@dataclass(slots=True)
class _Spent:
    """What one owner spent on a day: as the store knows it, and what is not written yet; of that,
    what the write of this `number` adds, which may be in the store."""

    day: int
    stored: Counter[str] = field(default_factory=Counter)
    own: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    number: int = 0
    is_read: bool = False

    def learn(self, total: Counter[str], edge: str) -> None:
        """Take the counts of the store, which may hold what this edge sent."""
        self.stored, self.is_read = total, True
        if total[edge] == self.number:
            self.own -= self.sent  # calls may have come meanwhile
            self.sent = Counter()


class Budgets:
    """Admits calls while no budget of `limits` (names of `BUDGETS`) is used up. `keeping` writes
    the counts to the store of all edges, whose entries must live for two days."""

    def __init__(
        self, limits: Mapping[str, int], store: KeyValue, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._limits = limits
        self._scopes = {BUDGETS[name][0] for name in limits}
        self._store = store
        self._clock = clock
        self._spent: LRUCache[str, _Spent] = LRUCache(_MAX_OWNERS)
        self._away_until_s = 0.0
        self._edge = _EDGE + secrets.token_hex(4)
        self._numbers = itertools.count(1)

    async def admit(self, caller: str, *, costly: bool) -> None:
        """Count one call; raises Fault(rate_limited), which names the budget, until midnight."""
        owners = self._owners(caller)
        # All are read before the first is looked at: calls that wait together are counted singly.
        known = {scope: await self._of(owner) for scope, owner in owners.items()}
        for scope, spent in known.items():
            for name, limit in self._limits.items():
                whose, kind = BUDGETS[name]
                if whose != scope or (kind == "costly_calls" and not costly):
                    continue
                if spent.stored[kind] + spent.own[kind] >= limit * _UNITS.get(kind, 1):
                    raise self._used_up(name, limit)
        for owner in owners.values():
            self._add(owner, "calls", 1)
            if costly:
                self._add(owner, "costly_calls", 1)

    def spend(self, caller: str, *, tokens: int, credits: float) -> None:
        """Count the tokens of an answer, and the credits that paid providers took for it."""
        for owner in self._owners(caller).values():
            self._add(owner, "tokens", tokens)
            self._add(owner, "credits", math.ceil(credits * _UNITS["credits"]))

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[Budgets]:
        """Write the counts every second, and at the end."""
        task = asyncio.create_task(self._keep())
        try:
            yield self
        finally:
            await end_task(task)
            await self.write()

    async def write(self) -> None:
        """Add what is not written yet to the common counts; what cannot be written is kept."""
        for owner, spent in [*self._spent.items()]:
            if not spent.own:
                continue
            try:
                await self._write(owner, spent)
            except Fault as fault:
                log.debug("budgets are written later: %s", fault)
                return

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_WRITE_EVERY_S)
            await self.write()

    def _owners(self, caller: str) -> dict[str, str]:
        owners = {"caller": f"caller/{caller}", "tenant": "tenant"}
        return {scope: owner for scope, owner in owners.items() if scope in self._scopes}

    def _known(self, owner: str) -> _Spent:
        day = int(self._clock() // _DAY_S)
        spent = self._spent.get(owner)
        if spent is None or spent.day != day:  # the last second of yesterday is forgotten
            spent = self._spent[owner] = _Spent(day)
        return spent

    async def _of(self, owner: str) -> _Spent:
        spent = self._known(owner)
        if not spent.is_read and time.monotonic() >= self._away_until_s:
            try:
                entry = await within(self._store.get(_key(spent.day, owner)), _READ_WITHIN_S)
            except (Fault, TimeoutError):
                # Counted alone for now; calls do not wait for a store that hangs.
                self._away_until_s = time.monotonic() + _WRITE_EVERY_S
                return spent
            spent.learn(_decoded(entry.value if entry else None), self._edge)
        return spent

    def _add(self, owner: str, kind: str, count: int) -> None:
        if count:
            self._known(owner).own[kind] += count

    async def _write(self, owner: str, spent: _Spent) -> None:
        key = _key(spent.day, owner)
        for _ in range(_ATTEMPTS):
            entry = await self._store.get(key)
            total = _decoded(entry.value if entry else None)
            if not spent.sent:
                spent.sent, spent.number = Counter(spent.own), next(self._numbers)
            if total[self._edge] != spent.number:
                total += spent.sent
                _note_write(total, self._edge, spent.number)
                value = msgspec.json.encode(total)
                if await write_over(self._store, key, value, entry) is None:
                    continue
            spent.learn(total, self._edge)
            return

    def _used_up(self, name: str, limit: int) -> Fault:
        _refused.add(1, {"budget": name})
        scope, kind = BUDGETS[name]
        whose = "this caller" if scope == "caller" else "all callers together"
        left_s = _DAY_S - self._clock() % _DAY_S
        return Fault(
            ErrorCode.RATE_LIMITED,
            f"The budget {name} of today is used up: {limit} {kind.replace('_', ' ')} of {whose}. "
            "Try again after midnight UTC, or ask the operator for more.",
            retry_after_ms=int(left_s * 1000) + 1,
        )


def _key(day: int, owner: str) -> str:
    return hashlib.sha256(f"{day}/{owner}".encode("utf-8", "replace")).hexdigest()[:40]


def _note_write(total: Counter[str], edge: str, number: int) -> None:
    """Note the number of an edge's write among the counts; of many edges the last ones stay."""
    total.pop(edge, None)
    total[edge] = number
    for forgotten in [name for name in total if name.startswith(_EDGE)][:-_MOST_EDGES]:
        del total[forgotten]


def _decoded(value: bytes | None) -> Counter[str]:
    """The counts of an entry, and numbers of writes; one that cannot be read counts nothing, and is
    written anew."""
    try:
        return Counter(msgspec.json.decode(value, type=dict[str, int])) if value else Counter()
    except (msgspec.MsgspecError, ValueError) as error:
        log.error("the counts of a budget cannot be read and begin anew: %s", error)
        return Counter()
