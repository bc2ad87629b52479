"""What an ingest costs beside the bare model, and what it does to queries meanwhile.

Documents of the Federal Reserve go through the whole path: read, cut, sent over the bus, embedded and
written by a retrieval service of its own process. The ceiling is the model alone, in this process, on
single texts that are as long as the mean passage, on every core. Both are measured in turn, as tokens
for a second of CPU time of every process involved.

Queries are asked one after the other, in phases without an ingest and with one, in turn.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from tokenizers import Tokenizer

from searchbus_bus import Bus, connect
from searchbus_contracts.errors import Fault
from searchbus_contracts.ingest import NewDocument
from searchbus_contracts.retrieval import ListReply, ListRequest, SearchReply, SearchRequest
from searchbus_ingest.sending import send
from searchbus_ingest.sources.item import Item
from searchbus_ingest.sources.jsonl import read_jsonl
from searchbus_retrieval.documents.writing import embedded_text
from searchbus_vectors.dense_model import DenseModel
from searchbus_vectors.models import resolve_model

from .fomc import questions
from .stack import nats, service

COLLECTION = "fomc"
ROUNDS = 3
PASSAGES = 100
"""In a phase of ingest, at least."""
CEILING_TEXTS = 60
QUIET_QUERIES = 40
PAUSE_S = 0.05
"""Before each query: without it the queries take the cores from the ingest, whose priority is lower."""
READY_S = 120.0


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Tokens for a CPU second, of the path and of the model; p50 of queries with and without."""
    folder = await asyncio.to_thread(resolve_model)
    assert folder is not None
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    portions = _portions(reference)
    found: dict[str, list[float]] = {}
    quiet: list[list[float]] = []
    busy: list[list[float]] = []
    async with nats(workdir / "ingest-nats") as url:
        data_dir = str(workdir / "ingest-data")
        async with service("retrieval", url, data_dir=data_dir) as process:
            bus = await connect(url, name="bench")
            try:
                await _ready(bus)
                processes = (psutil.Process(process.pid), psutil.Process())
                first = next(portions)
                await send(bus, COLLECTION, first)  # queries need something to find
                length = _mean_tokens(tokenizer, first)
                dense = await asyncio.to_thread(DenseModel, folder)
                text = _text_of(tokenizer, first, length)
                await _ceiling(dense, text)
                ask = _asker(bus)
                for _ in range(ROUNDS):
                    cpu_s, wall_s = await _cost(processes[1:], _ceiling(dense, text))
                    tokens = CEILING_TEXTS * length
                    found.setdefault("model: tokens per CPU s", []).append(tokens / cpu_s)
                    found.setdefault("model: texts/s", []).append(CEILING_TEXTS / wall_s)

                    portion = next(portions)
                    cpu_s, wall_s = await _cost(processes, send(bus, COLLECTION, portion))
                    passages = sum(1 for _ in _passages(portion))
                    tokens = passages * _mean_tokens(tokenizer, portion)
                    found.setdefault("ingest: tokens per CPU s", []).append(tokens / cpu_s)
                    found.setdefault("ingest: passages/s", []).append(passages / wall_s)

                    quiet.append([await ask() for _ in range(QUIET_QUERIES)])
                    busy.append(await _while(send(bus, COLLECTION, next(portions)), ask))
            finally:
                await bus.close()
    medians = {name: statistics.median(values) for name, values in found.items()}
    ratios = [statistics.median(b) / statistics.median(q) for q, b in zip(quiet, busy, strict=True)]
    return {
        **{name: round(value, 1) for name, value in medians.items()},
        "mean tokens of a passage": length,
        "ingest / model, tokens per CPU s": round(
            medians["ingest: tokens per CPU s"] / medians["model: tokens per CPU s"], 2
        ),
        "query p50 ms": round(statistics.median(itertools.chain(*quiet)) * 1e3, 2),
        "query p50 ms during an ingest": round(statistics.median(itertools.chain(*busy)) * 1e3, 2),
        "queries during an ingest": sum(map(len, busy)),
        "query p50 during an ingest / without": round(statistics.median(ratios), 2),
    }


def _portions(reference: Path) -> Iterator[list[Item]]:
    """Documents of at least PASSAGES passages together, read and cut when they are taken."""
    portion: list[Item] = []
    for item in read_jsonl(reference / "data" / "fomc" / "docs-2021on.jsonl", COLLECTION):
        portion.append(item)
        if sum(1 for _ in _passages(portion)) >= PASSAGES:
            yield portion
            portion = []


def _passages(portion: Sequence[Item]) -> Iterator[str]:
    """The texts that the service embeds."""
    for item in portion:
        document: NewDocument | None = item.document
        assert document is not None, item
        for chunk in document.chunks:
            yield embedded_text(document, chunk.section, document.text[chunk.start : chunk.end])


def _mean_tokens(tokenizer: Tokenizer, portion: Sequence[Item]) -> int:
    return round(statistics.mean(len(e.ids) for e in tokenizer.encode_batch([*_passages(portion)])))


def _text_of(tokenizer: Tokenizer, portion: Sequence[Item], tokens: int) -> str:
    """A text that has so many tokens, with the two that the model adds."""
    text = " ".join(_passages(portion))
    whole = tokenizer.encode(text, add_special_tokens=False)
    return text[: whole.offsets[tokens - 3][1]]


async def _ceiling(dense: DenseModel, text: str) -> None:
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        loop = asyncio.get_running_loop()
        runs = (loop.run_in_executor(pool, dense.embed, [text]) for _ in range(CEILING_TEXTS))
        await asyncio.gather(*runs)


async def _cost(processes: Sequence[psutil.Process], work: Awaitable[Any]) -> tuple[float, float]:
    """CPU seconds of the processes and wall seconds of the work."""
    before, started_s = sum(map(_cpu_s, processes)), time.perf_counter()
    await work
    return sum(map(_cpu_s, processes)) - before, time.perf_counter() - started_s


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _asker(bus: Bus) -> Callable[[], Awaitable[float]]:
    """Asks the next question after a pause, returns its seconds; no question is asked twice."""
    numbered = (
        f"{question['question']} {n}" for n in itertools.count() for question in questions()
    )

    async def ask() -> float:
        request = SearchRequest(query=next(numbered), collections=(COLLECTION,))
        await asyncio.sleep(PAUSE_S)
        started_s = time.perf_counter()
        reply = await bus.request(
            bus.subjects.endpoint("retrieval", "search"), request, SearchReply,
            service="retrieval", timeout_s=60,
        )  # fmt: skip
        assert reply.hits
        return time.perf_counter() - started_s

    return ask


async def _while(work: Awaitable[Any], ask: Callable[[], Awaitable[float]]) -> list[float]:
    """Times of the queries that were answered before the work was done."""
    times: list[float] = []
    task = asyncio.ensure_future(work)
    while not task.done():
        times.append(await ask())
    await task
    return times


async def _ready(bus: Bus) -> None:
    async with asyncio.timeout(READY_S):
        while True:
            try:
                await bus.request(
                    bus.subjects.endpoint("retrieval", "list"), ListRequest(), ListReply,
                    service="retrieval", timeout_s=30,
                )  # fmt: skip
            except Fault:
                await asyncio.sleep(0.1)
            else:
                return
