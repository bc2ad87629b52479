"""Questions to the tools that answer them, through the edge: what a caller gets, by kind of question.

    python -m tests.bench.answers FOLDER QUESTIONS.jsonl …

FOLDER is that of an embedded store with the ingested FOMC corpus, as `python -m tests.bench fomc` leaves
it. What a line has says how it is asked, and it may have a `kind`:

- `question`, `documents` (ids of those that answer it) and `answer` (strings, any of which answers it):
  search_fomc, and with --brief research_brief;
- `question` and `documents`: search; lost is a document that its limits of relevance leave out;
- `question` alone, which the documents do not answer: search has to give nothing;
- `query` and `tool_ids`, of the catalogue `catalogue`: the tool index, behind tools/search and find_tools;
- `query` alone: the tool index has to give nothing, in each catalogue.

Documents with the same text count as one. CPU is that of the edge and the service together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import httpx

from searchbus_bus import Bus, MemoryBroker
from searchbus_contracts import Actor
from searchbus_contracts.ingest import document_id
from searchbus_contracts.retrieval import SearchReply, SearchRequest
from searchbus_contracts.toolindex import FindRequest
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_evaluation import entry_of, read_catalogue
from searchbus_passages import count
from searchbus_retrieval.library import Library
from searchbus_retrieval.service import build_worker
from searchbus_retrieval.tools import COLLECTION
from searchbus_runtime import Health
from searchbus_testing import HEADERS, messages, serve, until
from searchbus_toolindex.embedding import load_tool_embedder

from ..search.sets import EVERY_ROLE, finder_of
from .library import opened
from .metrics import success

CATALOGUES = Path(__file__).parents[3] / "shared" / "data" / "tools"
TOP_K = 5
Question = Mapping[str, Any]
Row = dict[str, Any]


@dataclass
class _Documents:
    """The served corpus; a document is called by the hash of its text."""

    http: httpx.AsyncClient
    bus: Bus
    library: Library

    async def row(self, question: Question, *, brief: bool) -> Row:
        """What was measured of one question."""
        asked = question["question"]
        if "documents" not in question:
            results, cpu_s = await self._call("search", query=asked)
            return {"abstains": not results["results"], "cpu ms": 1000 * cpu_s}
        keys = [document_id(COLLECTION, key) for key in question["documents"]]
        found = [await self.library.get_from([COLLECTION], key) for key in keys]
        gold = {document.content_hash for document in found}
        if "answer" not in question:
            return await self._lost(asked, gold)
        answers = [_plain(answer) for answer in question["answer"]]
        if brief:
            return await self._brief(asked, gold, answers)
        reply, cpu_s = await self._call("search_fomc", query=asked, top_k=TOP_K)
        results = reply["results"]
        ranked = list(dict.fromkeys(result["content_hash"] for result in results))
        texts = [_plain(result["chunk_text"]) for result in results]
        return {
            "R@1": success(ranked, gold, 1),
            "any@5": success(ranked, gold, TOP_K),
            "answer first": _has(texts[:1], answers),
            "answer@5": _has(texts, answers),
            "cpu ms": 1000 * cpu_s,
            "found": [f"{r['document_name']} {r['relevance_probability']}: {r['chunk_text'][:150]}" for r in results],
        }  # fmt: skip

    async def _lost(self, asked: str, gold: set[str | None]) -> Row:
        reply, cpu_s = await self._call("search", query=asked)
        every, near = [
            await self.bus.request(
                self.bus.subjects.endpoint("retrieval", "search"),
                SearchRequest(query=asked, limit=10, per_document=True, relevant_only=only),
                SearchReply, service="retrieval", timeout_s=60, actor=Actor(subject="bench"),
            )
            for only in (False, True)
        ]  # fmt: skip
        found, kept = ({hit.content_hash for hit in r.hits} & gold for r in (every, near))
        return {
            "found": [f"{h.title} {h.relevance} {h.cosine:.3f}: {h.text[:150]}" for h in every.hits],
            "any@10": bool(found),
            "lost": bool(found) and not kept,
            "empty": not reply["results"],
            "relevance": max((hit.relevance or 0.0 for hit in every.hits), default=0.0),
            "cpu ms": 1000 * cpu_s,
        }  # fmt: skip

    async def _brief(self, asked: str, gold: set[str | None], answers: Sequence[str]) -> Row:
        reply, cpu_s = await self._call("research_brief", question=asked)
        hashes = {source["citation"]: source.get("content_hash") for source in reply["sources"]}
        short = {key[:16] for key in gold if key}
        texts = [_plain(passage["text"]) for passage in reply["passages"]]
        beside = [
            hashes[p["citation"]] not in short and not _has([text], answers)
            for p, text in zip(reply["passages"], texts, strict=True)
        ]
        return {
            "brief has answer": _has(texts, answers),
            "its first passage": _has(texts[:1], answers),
            "beside the point": mean(beside) if beside else None,
            "tokens": count(json.dumps(reply)),
            "brief cpu ms": 1000 * cpu_s,
            "found": texts,
        }

    async def _call(self, tool: str, **arguments: Any) -> tuple[dict[str, Any], float]:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                   "params": {"name": tool, "arguments": arguments}}  # fmt: skip
        started_s = time.process_time()
        response = await self.http.post("/mcp", json=message)
        cpu_s = time.process_time() - started_s
        reply = messages(response)[-1]
        if "error" in reply:
            raise RuntimeError(f"{tool} failed: {reply}")
        result = reply["result"]
        if result.get("isError"):
            raise RuntimeError(f"{tool} failed: {result['content'][0]['text']}")
        return result["structuredContent"], cpu_s


@asynccontextmanager
async def _documents(folder: Path) -> AsyncIterator[_Documents]:
    async with opened(folder) as (library, _, _):
        broker = MemoryBroker()
        await broker.connect(name="retrieval").serve(build_worker(library))
        bus = broker.connect(name="edge")
        actor = Actor(subject="bench", roles=("READER",))
        settings = EdgeSettings(connector_sources={"documents": 1.0})
        async with open_edge(bus, settings, default_actor=actor) as edge:
            await bus.serve(edge.connector)
            headers = {**HEADERS, "MCP-Protocol-Version": "2025-06-18"}
            async with (
                serve(build_app(edge, Health())) as url,
                httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as http,
            ):
                await until(lambda: _lists(http, "search_fomc", "research_brief"), timeout_s=60)
                await library.search(COLLECTION, "to load the model", limit=1)
                yield _Documents(http, bus, library)


async def _lists(http: httpx.AsyncClient, *tools: str) -> bool:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    listed = (await http.post("/mcp", json=message)).text
    return all(f'"{tool}"' in listed for tool in tools)


async def _of_tools(questions: Sequence[Question]) -> list[Row]:
    """Rows of the questions for tools, in order; those for none are asked of each catalogue."""
    embedder = await load_tool_embedder(query_threads=2)
    rows = []
    try:
        for name in dict.fromkeys(q["catalogue"] for q in questions if "catalogue" in q):
            tools, _ = read_catalogue(CATALOGUES / name)
            finder = await finder_of([entry_of(tool) for tool in tools], embedder)
            for question in questions:
                if question.get("catalogue", name) != name:
                    continue
                started_s = time.process_time()
                request = FindRequest(query=question["query"], limit=TOP_K)
                found = [one.name for one in (await finder.find(request, EVERY_ROLE)).found]
                row: Row = {"tool cpu ms": 1000 * (time.process_time() - started_s)}
                if right := question.get("tool_ids"):
                    row |= {"S@1": success(found, right, 1), "S@5": success(found, right, TOP_K)}
                    row |= {"wrongly empty": not found}
                else:
                    row |= {"empty": not found}
                kind = " ".join(filter(None, (question.get("kind"), name)))
                rows.append({**question, "kind": kind, **row, "found": found})
    finally:
        await embedder.close()
    return rows


def _means(rows: Iterable[Row]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            if isinstance(value, (bool, int, float)):
                values[name].append(float(value))
    return {name: round(mean(own), 3) for name, own in values.items()}


def _has(texts: Iterable[str], answers: Sequence[str]) -> bool:
    return any(answer in text for text in texts for answer in answers)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


async def _run(folder: Path, paths: Sequence[Path], *, brief: bool, show: bool) -> None:
    async with AsyncExitStack() as stack:
        documents = None
        for path in paths:
            asked = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
            rows = await _of_tools([question for question in asked if "query" in question])
            for question in asked:
                if "question" in question:
                    documents = documents or await stack.enter_async_context(_documents(folder))
                    rows.append({**question, **await documents.row(question, brief=brief)})
            by_kind: dict[str, list[Row]] = {"all": rows}
            for row in rows:
                if kind := row.get("kind"):
                    by_kind.setdefault(kind, []).append(row)
            for kind, own in by_kind.items():
                print(path.name, kind, len(own), json.dumps(_means(own)), flush=True)
            if show:
                json.dump(rows, sys.stderr, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", type=Path, nargs="+")
    parser.add_argument("--brief", action="store_true", help="ask research_brief, not search_fomc")
    parser.add_argument("--show", action="store_true", help="every row, on standard error")
    given = parser.parse_args()
    asyncio.run(_run(given.folder, given.questions, brief=given.brief, show=given.show))
