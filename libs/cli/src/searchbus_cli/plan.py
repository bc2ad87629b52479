"""`searchbus plan`: how much a deployment needs, from what one call costs.

    planned(Wanted(rps=1000, passages=1_000_000))

What was measured on one machine (capacity.json, written by `make bench`), and what is only
calculated from it, is told apart: `basis` of each part. CPU is measured for each kind of call; that
it grows with the rate alone is an estimate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.table import Table

from .output import echo, fail, print_table

Basis = Literal["measured", "estimated"]

KINDS = {
    "list": "CPU ms: tools/list",
    "find": "CPU ms: tools/search",
    "documents": "CPU ms: search over documents",
    "web": "CPU ms: web_search (DuckDuckGo)",
    "pages": "CPU ms: web_extract_content",
}
"""Kind of request → its name in the table."""
_MIX = {"list": 0.1, "find": 0.2, "documents": 0.4, "web": 0.2, "pages": 0.1}
_USE = 0.65
"""Share of a core that is used at the planned rate: the rest is for bursts and rolling updates."""
_MIB_FOR_1000_TOOLS = {"edge": 2.9, "toolindex": 6.5}
"""Measured by `make bench` (`finding`) from 1,000 to 50,000 tools."""
_SEARCHES_PER_S = 0.4
"""What DuckDuckGo allows one address: 24 searches a minute."""
_EMBEDDED_PASSAGES = 200_000
"""From here on a Qdrant server keeps int8 vectors in memory and the rest on disk."""
_KIB_OF_PASSAGE = 1.5
"""Memory of a passage in a Qdrant server: its int8 vector, the graph, the words. An estimate."""
_SHARD_PASSAGES = 1_000_000
_SHARD_MS = 1.0
"""CPU of one search in one shard, an estimate."""
_QDRANT_NODE_GIB = 32.0
_NATS_CORES = 4.0
"""What one server uses at most before another cluster is needed."""
_QDRANT_MAX_NODES = 64
_COPIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a deployment is to carry, over all regions.

    Args:
        rps: requests of clients per second.
        mix: kind → its share of the requests.
        scrapers: egress addresses of ddg.
        cached: share of the web searches that the shared cache answers.
    """

    rps: float
    passages: int = 0
    tools: int = 50
    scrapers: int = 1
    regions: int = 1
    mix: Mapping[str, float] = field(default_factory=lambda: dict(_MIX))
    cached: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one service needs in one region: each of its replicas, and on which basis."""

    name: str
    replicas: int
    cores: float
    memory_gib: float
    disk_gib: float = 0.0
    basis: Basis = "estimated"
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The rate over all regions at which something of this plan is used up."""

    name: str
    rps: float
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Parts of each region, and the limits, the first one first."""

    wanted: Wanted
    parts: tuple[Part, ...]
    limits: tuple[Limit, ...]


@cache
def costs() -> dict[str, Any]:
    """The table."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("capacity.json").read_text())
    return found


def planned(wanted: Wanted) -> Plan:
    """What each region needs: with several regions, each carries its share when one is lost."""
    share = wanted.rps / max(1, wanted.regions - 1)
    use = {service: share * ms / 1000 for service, ms in _ms_of(wanted).items()}
    parts = [_service(name, use.get(name, 0.0), wanted) for name in ("edge", "toolindex", "web")]
    parts += [_ddg(wanted), _retrieval(use.get("retrieval", 0.0), wanted), _nats(use, wanted)]
    if wanted.passages > _EMBEDDED_PASSAGES:
        parts.append(_qdrant(share, wanted))
    found = tuple(parts)
    return Plan(wanted=wanted, parts=found, limits=tuple(_limits(wanted, use, found)))


def _ms_of(wanted: Wanted) -> dict[str, float]:
    """CPU milliseconds of each service for one request of the mix."""
    found: dict[str, float] = {}
    for kind, part in wanted.mix.items():
        for service, ms in costs()[KINDS[kind]].items():
            # What the cache answers reaches no scraper.
            asked = part * (1 - wanted.cached) if service == "ddg" else part
            found[service] = found.get(service, 0.0) + ms * asked
    return found


def _service(name: str, cores: float, wanted: Wanted) -> Part:
    """One process has one event loop: a replica is a core of which a part is used."""
    replicas = max(2, math.ceil(cores / _USE))
    mib = costs()["resident MiB"].get(name, 0)
    mib += _MIB_FOR_1000_TOOLS.get(name, 0.0) * wanted.tools / 1000
    basis: Basis = "measured" if replicas == 2 and wanted.tools <= 50_000 else "estimated"
    return Part(
        name=name, replicas=replicas, cores=1.0, memory_gib=_gib(2 * mib / 1024), basis=basis,
        why=f"{cores:.1f} cores of work, {_USE:.0%} of a core used",
    )  # fmt: skip


def _ddg(wanted: Wanted) -> Part:
    replicas = max(1, math.ceil(wanted.scrapers / wanted.regions))
    return Part(
        name="ddg", replicas=replicas, cores=0.1, memory_gib=_gib(0.25), basis="measured",
        why="one for each egress address",
    )  # fmt: skip


def _retrieval(cores: float, wanted: Wanted) -> Part:
    memory_gib = 2 * costs()["resident MiB"]["retrieval"] / 1024
    if wanted.passages > _EMBEDDED_PASSAGES:
        replicas = max(2, math.ceil(cores / _USE))
        return Part(
            name="retrieval", replicas=replicas, cores=1.0, memory_gib=_gib(memory_gib),
            why=f"{cores:.1f} cores of work; documents are in Qdrant",
        )  # fmt: skip
    scale = wanted.passages / 100_000 / 1024
    memory_gib += scale * costs()["MiB resident for 100,000 passages"]
    disk_gib = scale * costs()["MiB of disk for 100,000 passages"]
    return Part(
        name="retrieval", replicas=1, cores=max(1.0, math.ceil(cores / _USE)),
        memory_gib=_gib(memory_gib), disk_gib=_gib(disk_gib), basis="measured",
        why="the engine inside has one owner; a Qdrant server allows more",
    )  # fmt: skip


def _nats(use: Mapping[str, float], wanted: Wanted) -> Part:
    cores = math.ceil(use.get("nats", 0.0) / _COPIES / _USE * 2) / 2
    return Part(
        name="nats", replicas=_COPIES, cores=max(0.5, cores), memory_gib=1.0, disk_gib=1.0,
        why="three servers; 512 MiB of caches and counts",
    )  # fmt: skip


def _qdrant(share: float, wanted: Wanted) -> Part:
    gib = wanted.passages * _KIB_OF_PASSAGE * _COPIES / 2**20
    disk_gib = wanted.passages / 100_000 * costs()["MiB of disk for 100,000 passages"] / 1024
    shards = math.ceil(wanted.passages / _SHARD_PASSAGES)
    cores = share * wanted.mix.get("documents", 0.0) * shards * _SHARD_MS / 1000 / _USE
    nodes = max(_COPIES, math.ceil(gib / (0.75 * _QDRANT_NODE_GIB)), math.ceil(cores / 16))
    return Part(
        name="qdrant", replicas=nodes, cores=max(1.0, math.ceil(cores / nodes)),
        memory_gib=_gib(max(2.0, gib / nodes / 0.75)), disk_gib=_gib(disk_gib * _COPIES / nodes),
        why=f"{shards} shards in three copies",
    )  # fmt: skip


def _limits(wanted: Wanted, use: Mapping[str, float], parts: tuple[Part, ...]) -> list[Limit]:
    found = []
    searched = wanted.mix.get("web", 0.0) * (1 - wanted.cached)
    if searched:
        rps = wanted.scrapers * _SEARCHES_PER_S / searched
        remedy = "more egress addresses, or an API key of Tavily or Brave"
        found.append(Limit(name="searches of DuckDuckGo", rps=rps, remedy=remedy))
    for part in parts:
        work = use.get(part.name, 0.0)
        if part.name == "nats" and work:
            rps = wanted.rps * _COPIES * _NATS_CORES * _USE / work
            found.append(Limit(name="NATS", rps=rps, remedy="a cluster for each region"))
        elif part.name == "retrieval" and part.disk_gib and work:
            rps = wanted.rps * 2 * _USE / work
            remedy = "a Qdrant server (SEARCHBUS_QDRANT_URL)"
            found.append(Limit(name="the document engine inside retrieval", rps=rps, remedy=remedy))
        elif part.name == "qdrant":
            rps = wanted.rps * _QDRANT_MAX_NODES / part.replicas
            remedy = "collections on clusters of their own"
            found.append(Limit(name="Qdrant", rps=rps, remedy=remedy))
        elif part.name not in ("ddg", "nats") and work:
            rps = wanted.rps * part.replicas * _USE / work
            found.append(Limit(name=part.name, rps=rps, remedy=f"more replicas of {part.name}"))
    return sorted(found, key=lambda limit: limit.rps)


def _gib(gib: float) -> float:
    """Rounded up to a quarter."""
    return math.ceil(gib * 4) / 4


_SHARES_MAY_DIFFER = 0.01
_MOST = 10**12
"""Limit of each number, so that the calculation stays within those of a computer."""


def plan(
    rps: Annotated[float, typer.Option(min=0.1, max=_MOST, help="Requests of clients per second.")],
    passages: Annotated[int, typer.Option(min=0, max=_MOST, help="Passages of all documents.")] = 0,
    tools: Annotated[int, typer.Option(min=0, max=_MOST, help="Tools of all toolsets.")] = 50,
    scrapers: Annotated[int, typer.Option(min=1, max=_MOST, help="Egress addresses of ddg.")] = 1,
    regions: Annotated[int, typer.Option(min=1, max=20, help="Regions that serve.")] = 1,
    mix: Annotated[
        str, typer.Option(help="Shares: list=.1,find=.2,documents=.4,web=.2,pages=.1")
    ] = "",
    cached: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of web searches from the cache.")
    ] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print replicas, cores, memory and disks, and what is used up first.

    Example: searchbus plan --rps 1000 --passages 1000000
    """
    wanted = Wanted(
        rps=rps, passages=passages, tools=tools, scrapers=scrapers, regions=regions, cached=cached,
        **({"mix": _mix(mix)} if mix else {}),
    )  # fmt: skip
    found = planned(wanted)
    if as_json:
        echo(msgspec.json.encode(found).decode())
        return
    _show(found)


def _mix(text: str) -> dict[str, float]:
    found = {}
    for pair in text.split(","):
        kind, _, share = pair.strip().partition("=")
        try:
            found[kind] = float(share)
        except ValueError:
            found[kind] = -1.0
        if kind not in KINDS or not 0 <= found[kind] <= 1:
            raise fail(f"--mix {pair}: write KIND=SHARE with one of {', '.join(KINDS)}.", 2)
    if abs(sum(found.values()) - 1) > _SHARES_MAY_DIFFER:
        raise fail(f"--mix {text}: the shares are {sum(found.values()):g} together, not 1.", 2)
    return found


def _show(found: Plan) -> None:
    table = Table("service", "replicas", "cores", "GiB", "GiB of disk", "basis", "why", box=None)
    for part in found.parts:
        disk = f"{part.disk_gib:g}" if part.disk_gib else ""
        table.add_row(
            part.name, str(part.replicas), f"{part.cores:g}", f"{part.memory_gib:g}", disk,
            part.basis, part.why,
        )  # fmt: skip
    if found.wanted.regions > 1:
        echo(f"in each of {found.wanted.regions} regions, of which one may be lost")
    print_table(table)
    for place, limit in zip(("first", "then"), found.limits, strict=False):
        state = "" if limit.rps >= found.wanted.rps else ", which is less than is wanted"
        echo(f"{place}: {limit.name} at {limit.rps:,.0f} requests/s{state}. Next: {limit.remedy}.")
