"""What processes that run all the time hold, to compare it with what they held before.

kept = await Kept.start(fleet)
before = await kept.held()
(await kept.held()).more_than(before)["descriptors"]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psutil

from searchbus_contracts.subjects import INBOX

from .fleet import Fleet, monitor
from .watched import holdings

KINDS = ("tasks", "descriptors", "subscriptions", "consumers")


@dataclass(frozen=True, slots=True)
class Held:
    """What the processes that run all the time hold, and what NATS holds for all of them.

    Attributes:
        rss_mib, blocks: by process.
        objects: process → type → number of objects.
        counts: kind and owner → number.
    """

    rss_mib: dict[str, float]
    blocks: dict[str, int]
    objects: dict[str, Counter[str]]
    counts: dict[tuple[str, str], int]

    def more_than(self, before: Held) -> Counter[str]:
        """By kind; less of one owner makes up for nothing."""
        more: Counter[str] = Counter({kind: 0 for kind in KINDS})
        for (kind, owner), count in self.counts.items():
            more[kind] += max(0, count - before.counts.get((kind, owner), 0))
        return more

    def grown_since(self, before: Held) -> str:
        """What to look for where a gate is missed: a line for each owner that holds more."""
        lines = [
            f"{owner}: {kind} {before.counts.get((kind, owner), 0)} → {count}"
            for (kind, owner), count in self.counts.items()
            if count > before.counts.get((kind, owner), 0)
        ] + [
            f"{name}: resident {before.rss_mib[name]:.1f} → {self.rss_mib[name]:.1f} MiB, objects "
            f"{dict((found - before.objects[name]).most_common(12))}"
            for name, found in self.objects.items()
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Kept:
    """An edge and a worker that are not restarted.

    Args:
        pids: by name.
    """

    fleet: Fleet
    pids: dict[str, int]

    @classmethod
    async def start(cls, fleet: Fleet) -> Kept:
        """Start both."""
        edge = await fleet.edge(report=cls._report(fleet, "edge"))
        report = cls._report(fleet, "worker")
        worker = fleet.start("tests.chaos.watched", str(report), "tests.chaos.worker")
        return cls(fleet, {"edge": edge.pid, "worker": worker.pid})

    async def held(self) -> Held:
        """What they hold now, without what only waits to be collected."""
        (port,) = self.fleet.monitors()
        counts: dict[tuple[str, str], int] = {}
        memory_mib, blocks, objects = {}, {}, {}
        for name, pid in self.pids.items():
            found = await holdings(pid, self._report(self.fleet, name))
            memory_mib[name], blocks[name] = found["rss_mib"], found["blocks"]
            objects[name] = Counter(found["objects"])
            counts["tasks", name] = sum(found["tasks"].values())
            counts["descriptors", name] = psutil.Process(pid).num_fds()
        # A scraper on standby has one subscription, a working one many: the most of each service.
        for connection in monitor(port, "connz?subs=1&limit=10000")["connections"]:
            key = ("subscriptions", connection.get("name", ""))
            subjects = connection.get("subscriptions_list", [])
            # Our inbox and that of nats-py are opened by the first request, which may be late.
            inboxes = sum(subject.startswith(INBOX) for subject in subjects)
            counts[key] = max(counts.get(key, 0), len(subjects) - min(2, inboxes))
        counts["consumers", "nats"] = int(monitor(port, "jsz").get("consumers", 0))
        return Held(memory_mib, blocks, objects, counts)

    @staticmethod
    def _report(fleet: Fleet, name: str) -> Path:
        return fleet.folder / f"{name}-report.json"
