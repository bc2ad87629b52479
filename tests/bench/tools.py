"""Tool search: the quality of its answers on public catalogues."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from searchbus_evaluation import evaluate, read_catalogue
from searchbus_toolindex.embedding import load_tool_embedder

from ..search.measure import measure


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """LiveMCPBench and StableToolBench as `searchbus tools bench` measures them, and all sets."""
    embedder = await load_tool_embedder(query_threads=2)
    found = {}
    try:
        for name in ("livemcpbench", "stabletoolbench"):
            tools, queries = read_catalogue(reference / "data" / "tools" / name)
            report = await evaluate(tools, queries, embedder)
            found |= {f"{name} {key}": value for key, value in asdict(report)["measures"].items()}
    finally:
        await embedder.close()
    for name, values in (await measure(reference)).items():
        found |= {f"{name}: {key}": value for key, value in values.items()}
    return found
