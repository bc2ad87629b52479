"""The index follows the services on the bus."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from searchbus_bus import MemoryBroker, Worker
from searchbus_bus.worker.worker import ToolEndpoint
from searchbus_contracts import ToolCall, ToolReply
from searchbus_testing import until
from searchbus_toolindex import follower
from searchbus_toolindex.entries import entry_of
from searchbus_toolindex.follower import Follower
from searchbus_toolindex.index import Index
from searchbus_toolindex.vector_file import VectorFile

from .conftest import EVERY_ROLE, RecordingEmbedder, tool


def worker(*tools, service: str = "office") -> Worker:
    made = Worker(service)

    async def handle(call, request: ToolCall) -> ToolReply:
        return ToolReply()

    for descriptor in tools:
        made.add_tool(descriptor, handle)
    return made


def names(index: Index) -> set[str]:
    assert index.scope(EVERY_ROLE, "tool").lengths.number == len(index)
    return {entry.name for entry in index.slots if entry is not None}


@asynccontextmanager
async def following(broker, vectors: VectorFile | None = None):
    embedder = RecordingEmbedder()
    index = Index(embedder.model)
    async with Follower(
        broker.connect(name="toolindex"), index, embedder,
        VectorFile(None) if vectors is None else vectors,
        grace_s=0.1, refresh_s=0.05,
    ):  # fmt: skip
        yield index, embedder


async def test_index_is_built_when_it_starts():
    """With every service that is there."""
    broker = MemoryBroker()
    await broker.connect().serve(worker(tool("send", "send mail")))
    async with following(broker) as (index, _):
        assert names(index) == {"send"}


async def test_changes_and_departures_are_followed():
    """Only what is new is embedded; a stopped service's entries go after the grace period."""
    broker = MemoryBroker()
    offered = worker(tool("send", "send mail"))
    serving = await broker.connect().serve(offered)
    async with following(broker) as (index, embedder):
        first = list(embedder.embedded)

        async def handle(call, request: ToolCall) -> ToolReply:
            return ToolReply()

        offered.add_tool(tool("chart", "draw a chart"), handle)
        await serving.refresh()
        await until(lambda: names(index) == {"send", "chart"})
        assert len(embedder.embedded) == len(first) + 1
        await serving.drain(1.0)
        await until(lambda: len(index) == 0)


async def test_vectors_that_another_process_removed_are_made_again(tmp_path):
    """Between their making and their use: the tool is indexed all the same."""
    path = tmp_path / "vectors.bin"

    class Shared(VectorFile):
        whole = True

        def add(self, vectors) -> None:
            super().add(vectors)
            if self.whole:
                self.whole = False
                path.write_bytes(b"")

    broker = MemoryBroker()
    await broker.connect().serve(worker(tool("send", "send mail")))
    async with following(broker, Shared(path)) as (index, _):
        await until(lambda: names(index) == {"send"})


async def test_unchanged_services_are_not_read_again(monkeypatch):
    """A change costs what has changed, however large the other catalogues are."""
    broker = MemoryBroker()
    await broker.connect().serve(worker(tool("send", "send mail")))
    async with following(broker) as (index, _):
        read = []

        def recording(descriptor):
            read.append(descriptor.name)
            return entry_of(descriptor)

        monkeypatch.setattr(follower, "entry_of", recording)
        await broker.connect().serve(worker(tool("draw", "draw", toolset="art"), service="other"))
        await until(lambda: names(index) == {"send", "draw"})
        assert read == ["draw"]


async def test_one_changed_tool_of_a_large_catalogue_is_read_alone(monkeypatch):
    """With those of its part: the others are the same objects as before."""
    broker = MemoryBroker()
    about = "Sends mail to someone. " * 20
    offered = worker(*(tool(f"tool_{number}", about) for number in range(300)))
    serving = await broker.connect().serve(offered)
    async with following(broker) as (index, embedder):
        assert len(index) == 300
        read = []
        monkeypatch.setattr(follower, "entry_of", lambda d: read.append(d.name) or entry_of(d))
        embedder.embedded.clear()
        changed = tool("tool_42", "draw a chart")
        offered._tools["office", "tool_42"] = ToolEndpoint(changed, None)
        await serving.refresh()
        await until(lambda: any(entry and "chart" in entry.text for entry in index.slots))
        assert len(embedder.embedded) == 1
        assert "tool_42" in read
        assert len(read) < 150


async def test_few_new_tools_do_not_wait_behind_documents():
    """Callers wait for them; many are embedded at a low priority, so that queries stay quick."""
    broker = MemoryBroker()
    await broker.connect().serve(worker(tool("send", "send mail")))
    async with following(broker) as (index, embedder):
        assert embedder.urgent == embedder.embedded != []
        many = (tool(f"draw_{number}", f"draw {number}", toolset="art") for number in range(60))
        await broker.connect().serve(worker(*many, service="other"))
        await until(lambda: len(index) == 61)
        assert len(embedder.embedded) == 61
        assert len(embedder.urgent) == 1


async def test_restart_embeds_nothing_again(tmp_path):
    """The vectors are on disk."""
    broker = MemoryBroker()
    await broker.connect().serve(worker(tool("send", "send mail")))
    for expected in (1, 0):
        async with following(broker, VectorFile(tmp_path / "v" / "vectors.bin")) as (index, made):
            assert names(index) == {"send"}
            assert len(made.embedded) == expected


async def test_failed_update_is_tried_again_and_harms_no_other_service(caplog, monkeypatch):
    """Without another change, after a pause; the index keeps what it had, and takes the others."""
    monkeypatch.setattr(follower, "_RETRY_S", (0.01, 0.02))
    failed: list[str] = []
    monkeypatch.setattr(follower.telemetry, "count_failed", failed.append)
    broker = MemoryBroker()
    async with following(broker) as (index, embedder):
        embed = embedder.embed_short

        async def failing(texts, *, urgent):
            if any("mail" in text for text in texts):
                raise RuntimeError("out of memory")
            return await embed(texts, urgent=urgent)

        embedder.embed_short = failing
        await broker.connect().serve(worker(tool("send", "send mail")))
        await broker.connect().serve(worker(tool("draw", "draw", toolset="art"), service="other"))
        await until(lambda: names(index) == {"draw"} and len(failed) >= 3)
        assert set(failed) == {"index"}
        assert "the entries of office could not be updated" in caplog.text
        embedder.embed_short = embed
        await until(lambda: names(index) == {"send", "draw"})


async def test_failure_at_the_start_is_tried_again(monkeypatch):
    """The other services' tools are found meanwhile."""
    monkeypatch.setattr(follower, "_RETRY_S", (0.01, 0.02))
    broker = MemoryBroker()
    await broker.connect().serve(worker(tool("send", "send mail")))
    embed, attempts = RecordingEmbedder.embed_short, []

    async def failing_once(self, texts, *, urgent):
        attempts.append(texts)
        if len(attempts) == 1:
            raise RuntimeError("out of memory")
        return await embed(self, texts, urgent=urgent)

    monkeypatch.setattr(RecordingEmbedder, "embed_short", failing_once)
    async with following(broker) as (index, _):
        await until(lambda: names(index) == {"send"})


async def test_toolset_of_a_lost_service_goes_to_one_that_was_indexed_before_it(monkeypatch):
    """In one update: the entries of the last owner leave first, since the index keeps an entry."""
    monkeypatch.setattr("searchbus_bus.catalog.directory._PING_TIMEOUT_S", 0.01)
    broker, embedder, free = MemoryBroker(), RecordingEmbedder(), asyncio.Event()
    first, crashing = worker(tool("draw", "draw", toolset="art"), service="first"), broker.connect()
    serving = await broker.connect().serve(first)
    await crashing.serve(worker(tool("send", "send mail"), service="second"))
    index, embed = Index(embedder.model), embedder.embed_short

    async def waiting(texts, *, urgent):
        await free.wait()
        return await embed(texts, urgent=urgent)

    async with Follower(
        broker.connect(), index, embedder, VectorFile(None), grace_s=0.1, refresh_s=0.05
    ) as following:
        embedder.embed_short = waiting
        await broker.connect().serve(worker(tool("plan", "plan", toolset="time"), service="third"))
        for endpoint in worker(tool("send", "send mail"))._tools.values():
            first.add_tool(endpoint.descriptor, endpoint.handler)
        await serving.refresh()
        await crashing.transport.close()
        await until(lambda: following.directory.owner("office") == "first")
        free.set()
        await until(
            lambda: (
                set(index._owned) == {"first", "third"} and names(index) == {"draw", "send", "plan"}
            )
        )
