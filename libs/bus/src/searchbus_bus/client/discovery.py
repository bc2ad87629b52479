"""Asks all workers who they are, by `$SRV.INFO` (proto/README.md §8.1).

The replies to the first question only say which services to ask: any worker could name another's
service in them. The second goes to each service; on a secured bus only that one receives it.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import msgspec

from searchbus_contracts import ACKS_KEY, CATALOG_KEY, CONTRACT_KEY, Fault, decode, is_token
from searchbus_contracts.catalog import CONTRACT_VERSION
from searchbus_contracts.subjects import DISCOVERY

from .inbox import Inbox, InboxQuestion

log = logging.getLogger("searchbus.bus")

EVERYONE = "$SRV.INFO"
"""The question to all workers. Its header `searchbus` is the asker's version of the wire."""
_MOST_SERVICES = 1000
"""A worker that names more services than exist makes discovery no longer than this."""


def started_ms(metadata: Mapping[str, str]) -> int:
    """When a worker started, in milliseconds of the epoch; 0 where its metadata does not say."""
    value = metadata.get("started_ms", "")
    # Any worker writes it: int() refuses other digits than ASCII's, and very many of them.
    return int(value) if re.fullmatch(r"[0-9]{1,16}", value) else 0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One running worker, as its `$SRV.INFO` reply describes it."""

    service: str
    instance: str
    version: str
    catalog: str
    metadata: dict[str, str]

    @property
    def started_ms(self) -> int:
        """When it started, in milliseconds of the epoch; 0 where the reply does not say."""
        return started_ms(self.metadata)


async def discover(
    inbox: Inbox, *, quiet_s: float, patience_s: float, most_s: float, known: Mapping[str, int]
) -> list[WorkerInfo]:
    """Every searchbus worker that replied; see `Bus.workers`."""
    collect = partial(inbox.collect, most_s=most_s)
    version = {CONTRACT_KEY: CONTRACT_VERSION}
    (replies,) = await collect(
        [InboxQuestion(EVERYONE, DISCOVERY, headers=version)], quiet_s=quiet_s
    )
    named = Counter(worker.service for worker in _workers(replies)) | Counter(known)
    asked = [service for service in named if is_token(service)][:_MOST_SERVICES]
    confirmed = await collect(
        [InboxQuestion(f"{EVERYONE}.{service}", service, named[service]) for service in asked],
        quiet_s=max(quiet_s, patience_s),
    )
    found = [
        worker
        for service, replies in zip(asked, confirmed, strict=True)
        for worker in _workers(replies)
        if worker.service == service
    ]
    return sorted(found, key=lambda worker: (worker.service, worker.instance))


async def discover_instances(inbox: Inbox, service: str, *, quiet_s: float) -> list[str] | None:
    """The instances of one service that reply; None where one does not acknowledge requests. Raises
    Fault(unavailable) without a connection."""
    question = InboxQuestion(f"{EVERYONE}.{service}", service)
    (replies,) = await inbox.collect([question], quiet_s=quiet_s, most_s=2 * quiet_s)
    found = [worker for worker in _workers(replies) if worker.service == service]
    every = all(ACKS_KEY in worker.metadata for worker in found)
    return [w.instance for w in found if is_token(w.instance)] if every else None


def _workers(replies: Sequence[bytes]) -> list[WorkerInfo]:
    """The searchbus workers among the replies to `$SRV.INFO`."""
    found = []
    for reply in replies:
        try:
            info = decode(reply, _Info)
        except Fault:
            continue
        version = info.metadata.get(CONTRACT_KEY, CONTRACT_VERSION)
        if version != CONTRACT_VERSION:
            _log_left_out(info.name[:64], info.id[:64], version[:16])
        elif CONTRACT_KEY in info.metadata:
            found.append(
                WorkerInfo(
                    service=info.name,
                    instance=info.id,
                    version=info.version,
                    catalog=info.metadata.get(CATALOG_KEY, ""),
                    metadata=info.metadata,
                )
            )
    return found


@lru_cache(_MOST_SERVICES)
def _log_left_out(service: str, instance: str, version: str) -> None:
    """Logged once for each instance: every round of discovery meets it again."""
    log.warning(
        "the worker %r (%r) uses version %r of the wire, this process %s: its tools are "
        "left out. Run one release of searchbus on a bus.",
        service,
        instance,
        version,
        CONTRACT_VERSION,
    )


class _Info(msgspec.Struct):
    name: str
    id: str
    version: str
    metadata: dict[str, str]
