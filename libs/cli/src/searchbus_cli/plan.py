"""`searchbus plan`: what a deployment of a size needs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.table import Table

from .capacity import KINDS, Plan, Wanted
from .capacity import plan as plan_of
from .output import echo, fail, print_table

_SHARES_MAY_DIFFER = 0.01


def plan(
    rps: Annotated[float, typer.Option(min=0.1, help="Requests of clients per second.")],
    passages: Annotated[int, typer.Option(min=0, help="Passages of all documents.")] = 0,
    tools: Annotated[int, typer.Option(min=0, help="Tools of all toolsets.")] = 50,
    scrapers: Annotated[int, typer.Option(min=1, help="Egress addresses of ddg.")] = 1,
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
    found = plan_of(wanted)
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
