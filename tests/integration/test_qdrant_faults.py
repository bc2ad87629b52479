"""A real Qdrant server that is slow or full, a node of a cluster that is lost, and filters without
an index.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from searchbus_testing import Stack, eventually, post
from tests.chaos.proxy import Fault, Proxy
from tests.chaos.rows_storage import fill, small_file_system

from .qdrant import QdrantServer, cluster, qdrant_binary
from .test_qdrant_server import found, search, write_documents

pytestmark = pytest.mark.slow
STRICT = {
    f"STORAGE__COLLECTION__STRICT_MODE__{name}": value
    for name, value in {
        "ENABLED": "true",
        "UNINDEXED_FILTERING_RETRIEVE": "false",
        "UNINDEXED_FILTERING_UPDATE": "false",
    }.items()
}
"""The server refuses a filter on a field that has no index."""


@pytest.fixture(autouse=True)
def _program() -> None:
    if qdrant_binary() is None:
        pytest.skip("there is no qdrant program, neither on the PATH nor beside the checkout")


def stack_on(url: str, data: Path, **more: str) -> Stack:
    settings = {"SEARCHBUS_QDRANT_URL": url, "SEARCHBUS_EMBEDDER": "hash", **more}
    stack = Stack(data, environment=settings)
    stack.start()
    return stack


@pytest.fixture
def servers() -> Iterator[list[QdrantServer]]:
    running: list[QdrantServer] = []
    yield running
    for server in running:
        server.kill()


STATEMENT = """The Committee decided to raise the target range for the federal funds rate to 4-1/2 to
4-3/4 percent. Voting for the monetary policy action were Jane Doe, Chair, and John Roe. Voting against
this action was Ann Poe, who preferred no change."""


def test_every_filter_of_the_documents_has_an_index(servers, tmp_path):
    """Ingest, rebuild, every kind of condition, facts, replacing and deleting; by gRPC."""
    server = QdrantServer(tmp_path / "qdrant", options=STRICT)
    servers.append(server)
    server.start()
    stack = stack_on(
        server.url, tmp_path / "data", SEARCHBUS_QDRANT_GRPC_PORT=str(server.grpc_port)
    )
    try:
        lines = [
            {"id": f"s{n}", "text": f"{STATEMENT} {n}", "title": f"Statement {n}", "n": n,
             "date": f"202{n}-02-01", "type": "statement", "share": n + 0.5, "final": n % 2 == 0}
            for n in range(5)
        ]  # fmt: skip
        source = tmp_path / "docs.jsonl"
        source.write_text("\n".join(map(json.dumps, lines)))
        done = stack.command("ingest", source, "--collection", "fomc")
        assert "5 stored" in done.stdout, done.stdout + done.stderr
        conditions: list[dict[str, Any]] = [
            {"n": {"$gte": 2}}, {"share": {"$lt": 2.0}}, {"final": True},
            {"document_type": {"$in": ["statement"]}}, {"document_type": {"$ne": "minutes"}},
            {"document_date": {"$gte": "2022-01-01"}}, {"document_name": "Statement 1"},
            {"dissents": {"$gte": 0}}, {"decision": "raise"}, {"dissenters": {"$nin": ["Poe"]}},
        ]  # fmt: skip
        for where in [None, *conditions]:
            arguments = {"query": "who dissented in 2022", **({"where": where} if where else {})}
            content = call(stack, "search_fomc", arguments)
            assert "error" not in content, (where, content)
        hit = call(stack, "search_fomc", {"query": "target range"})["results"][0]
        document = call(stack, "get_document", {"document_id": hit["document_id"]})
        assert STATEMENT in document["full_text"]
        assert stack.command("search", "latest statement", "--collection", "fomc").returncode == 0
        rebuilt = stack.command("ingest", source, "--collection", "fomc", "--rebuild")
        assert "5 stored" in rebuilt.stdout, rebuilt.stdout + rebuilt.stderr
        source.write_text("\n".join(map(json.dumps, [{**lines[0], "text": "Changed."}, lines[1]])))
        pruned = stack.command("ingest", source, "--collection", "fomc", "--prune")
        assert "1 replaced, 1 unchanged" in pruned.stdout, pruned.stdout + pruned.stderr
        assert "3 deleted" in pruned.stdout
    finally:
        stack.stop()
    names = httpx.get(f"{server.url}/collections").json()["result"]["collections"]
    assert [c["name"] for c in names] == ["fomc~2"]


def call(stack: Stack, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = post(stack.url + "/mcp", "tools/call", name=name, arguments=arguments)
    content = answer.json()["result"]["structuredContent"]
    assert isinstance(content, dict)
    return content


async def test_slow_server_is_typed_and_used_again_when_it_is_quick(servers, tmp_path):
    """What does not end by the deadline is a failure that says so, never an empty result."""
    server = QdrantServer(tmp_path / "qdrant")
    servers.append(server)
    server.start()
    async with Proxy(server.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        stack = await asyncio.to_thread(stack_on, url, tmp_path / "data")
        try:
            docs = write_documents(tmp_path / "docs", 20)
            await asyncio.to_thread(stack.command, "ingest", docs, "--collection", "fomc")
            assert await asyncio.to_thread(found, stack)
            proxy.fault = Fault.SLOW
            for _ in range(3):
                answer = await asyncio.to_thread(search, stack)
                code = answer.get("code", "results" if answer.get("results") else "nothing")
                assert code in ("results", "unavailable", "deadline_exceeded"), answer
            proxy.fault = Fault.STALL
            answer = await asyncio.to_thread(search, stack)
            assert answer["code"] == "unavailable"
            proxy.fault = Fault.NONE
            await asyncio.to_thread(eventually, lambda: found(stack))
        finally:
            await asyncio.to_thread(stack.stop)


async def test_full_disk_of_the_server_loses_nothing(tmp_path):
    """Writes are refused with what to do, and reads work; or the server ends, as it does where one
    of its mapped files cannot grow, and the ingest waits. No document is missing afterwards.
    """
    async with small_file_system(tmp_path) as disk:
        if disk is None:
            pytest.skip("this user cannot mount a file system")
        server = QdrantServer(disk / "qdrant")
        await asyncio.to_thread(server.start)
        stack = await asyncio.to_thread(stack_on, server.url, tmp_path / "data")
        try:
            await asyncio.to_thread(_fill_and_free, server, stack, disk, tmp_path)
        finally:
            await asyncio.to_thread(stack.stop)
            server.kill()


def _fill_and_free(server: QdrantServer, stack: Stack, disk: Path, folder: Path) -> None:
    stack.command("ingest", write_documents(folder / "docs", 20), "--collection", "fomc")
    fill(disk)
    more = write_documents(folder / "more", 400)
    ingest = stack.spawn(
        "ingest", more, "--collection", "fomc", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert server.process is not None
    eventually(lambda: {ingest.poll(), server.process.poll()} != {None}, timeout_s=300)
    if server.process.poll() is None:
        output, _ = ingest.communicate(timeout=60)
        assert ingest.returncode == 2, output
        assert "disk of the documents is full" in str(output)
        assert found(stack)
        (disk / "fill").unlink()
        again = stack.command("ingest", more, "--collection", "fomc")
        assert again.returncode == 0, again.stdout + again.stderr
    else:
        assert search(stack)["code"] == "unavailable"
        (disk / "fill").unlink()
        server.start()
        output, _ = ingest.communicate(timeout=300)
        assert ingest.returncode == 0, output
    last = stack.command("ingest", more, "--collection", "fomc")
    assert "0 stored, 0 replaced, 400 unchanged" in last.stdout, last.stdout + last.stderr
    eventually(lambda: found(stack))


def test_one_of_three_nodes_may_be_lost(servers, tmp_path):
    """Another node: searches and an ingest go on. The URL's own: unavailable until it is back."""
    servers += cluster(tmp_path / "cluster")
    own, _, lost = servers
    layout = json.dumps({"*": {"replicas": 3, "shards": 2}})
    stack = stack_on(own.url, tmp_path / "data", SEARCHBUS_COLLECTION_LAYOUTS=layout)
    try:
        docs = write_documents(tmp_path / "docs", 60)
        few = write_documents(tmp_path / "few", 3)
        assert stack.command("ingest", few, "--collection", "fomc").returncode == 0
        ingest = stack.spawn(
            "ingest", docs, "--collection", "rivers", stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        lost.kill()
        output, _ = ingest.communicate(timeout=600)
        assert ingest.returncode == 0, output
        eventually(lambda: all(found(stack) for _ in range(10)))
        own.kill()
        assert [search(stack).get("code") for _ in range(3)] == ["unavailable"] * 3
        own.start()
        lost.start()
        eventually(lambda: found(stack))
        again = stack.command("ingest", docs, "--collection", "rivers")
        assert "0 stored, 0 replaced, 60 unchanged" in again.stdout, again.stdout + again.stderr
    finally:
        stack.stop()
