"""The wired service, and the metrics of its sizes."""

from __future__ import annotations

import asyncio

import pytest
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, Fault
from searchbus_contracts.ingest import DeleteReply, DeleteRequest, IngestReply, IngestRequest
from searchbus_contracts.retrieval import (
    Document,
    GetRequest,
    ListReply,
    ListRequest,
    SearchReply,
    SearchRequest,
)
from searchbus_retrieval import SERVICE
from searchbus_retrieval.service import Sizes, build_worker, load_model, start
from searchbus_retrieval.settings import RetrievalSettings
from searchbus_runtime import Process
from searchbus_testing import until
from searchbus_testing.folders import quick_folder
from searchbus_vectors import ModelNotFoundError, StoreUnavailableError, VectorStore, open_store

from .conftest import document


def test_worker_offers_what_the_declaration_says():
    """Permissions on the bus are derived from the declaration."""
    worker = build_worker(None)  # type: ignore[arg-type]
    assert {tool.toolset for tool in worker.catalog.tools} == set(SERVICE.toolsets)
    assert set(worker.endpoints) == set(SERVICE.endpoints)
    assert {t.toolset for t in worker.catalog.resource_templates} == set(SERVICE.resources)


async def test_other_models_come_from_their_folders(tmp_path):
    """Where the settings name none, nothing is fetched without leave."""
    settings = RetrievalSettings(model_folders={"thenlper/gte-base": tmp_path})
    with pytest.raises(ModelNotFoundError, match=f"{tmp_path} of thenlper/gte-base lacks"):
        await load_model(settings, "thenlper/gte-base")
    with pytest.raises(ModelNotFoundError, match="SEARCHBUS_MODEL_DOWNLOAD"):
        await load_model(settings, "thenlper/gte-large")


async def test_roles_of_collections_come_from_the_settings():
    """And what was stored is there after a restart."""
    hidden, open_ = Actor(subject="a"), Actor(subject="b", roles=("HR",))
    with quick_folder() as folder:
        settings = RetrievalSettings(
            embedder="hash", data_dir=folder, collection_roles={"hr": ("HR",)}
        )
        for run in (1, 2):
            broker = MemoryBroker()
            process = Process("retrieval", settings, broker.connect())
            async with process.resources:
                await start(process)
                bus = broker.connect()
                subject = bus.subjects.endpoint
                if run == 1:
                    message = IngestRequest(
                        collection="hr", documents=(document("w", "Salaries."),)
                    )
                    await bus.request(
                        subject("retrieval", "ingest"), message, IngestReply,
                        service="retrieval", timeout_s=10, actor=Actor(subject="cli", roles=("*",)),
                    )  # fmt: skip
                for actor, names in ((hidden, []), (open_, ["hr"])):
                    listed = await bus.request(
                        subject("retrieval", "list"), ListRequest(), ListReply,
                        service="retrieval", timeout_s=10, actor=actor,
                    )  # fmt: skip
                    assert [c.name for c in listed.collections] == names


async def test_missing_model_ends_the_start_with_the_remedy(tmp_path):
    """Before anything is served."""
    settings = RetrievalSettings(data_dir=tmp_path / "data", model_dir=tmp_path)
    process = Process("retrieval", settings, MemoryBroker().connect())
    async with process.resources:
        with pytest.raises(Fault, match="SEARCHBUS_MODEL_DIR"):
            await start(process)


async def test_a_start_waits_until_its_folder_is_free(caplog):
    """The service of a stack that was killed drains before it ends."""
    with quick_folder() as folder:
        settings = RetrievalSettings(embedder="hash", data_dir=folder, connect_timeout_s=600)
        process = Process("retrieval", settings, MemoryBroker().connect())
        before = await open_store(folder=settings.store_folder)
        async with process.resources:
            starting = asyncio.create_task(start(process))
            await until(lambda: starting.done() or "waiting for the document store" in caplog.text)
            await before.close()
            await starting
            assert (await process.health.ready())["store"]


@pytest.fixture
def store_away(monkeypatch):
    """Makes a Qdrant server fail as often as it is told."""
    monkeypatch.setattr("searchbus_runtime.process._AGAIN_S", 0.001)

    def fail(times: int, *, retryable: bool) -> None:
        async def opened(**arguments: object) -> VectorStore:
            nonlocal times
            times -= 1
            if times >= 0:
                raise StoreUnavailableError("Qdrant is away.", "Start it.", retryable=retryable)
            return await open_store(**arguments)

        monkeypatch.setattr("searchbus_retrieval.service.open_store", opened)

    return fail


async def test_a_start_waits_for_its_server(store_away, caplog):
    """The log says so once."""
    store_away(3, retryable=True)
    settings = RetrievalSettings(embedder="hash", qdrant_url=":memory:", connect_timeout_s=600)
    process = Process("retrieval", settings, MemoryBroker().connect())
    async with process.resources:
        await start(process)
        assert (await process.health.ready())["store"]
    assert caplog.text.count("waiting for the document store: Qdrant is away. Start it.") == 1


@pytest.mark.parametrize(("retryable", "timeout_s"), [(True, 0.01), (False, 600)])
async def test_a_start_without_a_store_ends_with_the_remedy(store_away, retryable, timeout_s):
    """After the time of the setting, or at once where waiting does not help; for good, so that
    `searchbus up` does not start again and again what waits for half a minute."""
    store_away(10**9, retryable=retryable)
    settings = RetrievalSettings(
        embedder="hash", qdrant_url=":memory:", connect_timeout_s=timeout_s
    )
    process = Process("retrieval", settings, MemoryBroker().connect())
    async with process.resources:
        with pytest.raises(Fault, match="Qdrant is away") as caught:
            await start(process)
    assert not caught.value.failure.retryable


async def test_store_that_goes_away_is_unavailable_and_not_ready(monkeypatch):
    """Every request says so as it would of the other engine; it is ready again with its store."""
    settings = RetrievalSettings(embedder="hash", qdrant_url=":memory:")
    broker = MemoryBroker()
    process = Process("retrieval", settings, broker.connect())
    bus, actor = broker.connect(), Actor(subject="cli", roles=("*",))

    async def request(verb: str, message: object, reply: type) -> object:
        return await bus.request(
            bus.subjects.endpoint("retrieval", verb), message, reply,
            service="retrieval", timeout_s=10, actor=actor,
        )  # fmt: skip

    ingest = IngestRequest(collection="c", documents=(document("w", "Whales."),))
    async with process.resources:
        await start(process)
        await request("ingest", ingest, IngestReply)
        assert (await process.health.ready())["store"]

        async def refused(*_: object, **__: object) -> None:
            raise ResponseHandlingException(OSError("connection refused"))

        with monkeypatch.context() as patch:
            for name in (
                "get_collections",
                "retrieve",
                "scroll",
                "count",
                "query_points",
                "upsert",
                "query_batch_points",
            ):
                patch.setattr(AsyncQdrantClient, name, refused)
            assert not (await process.health.ready())["store"]
            for verb, message, reply in (
                ("list", ListRequest(), ListReply),
                ("list", ListRequest(collection="c"), ListReply),
                ("get", GetRequest(document_id="d"), Document),
                ("search", SearchRequest(query="whales"), SearchReply),
                ("search", SearchRequest(query="whales", collections=("c",)), SearchReply),
                ("ingest", ingest, IngestReply),
                ("delete", DeleteRequest(collection="c"), DeleteReply),
            ):  # fmt: skip
                with pytest.raises(Fault, match="Qdrant does not respond") as caught:
                    await request(verb, message, reply)
                assert (caught.value.code, caught.value.failure.retryable) == ("unavailable", True)
        assert (await process.health.ready())["store"]
        assert (await request("search", SearchRequest(query="whales"), SearchReply)).hits


async def test_sizes_are_counted_in_the_background(library, monkeypatch):
    """By collection; beyond the limit all share one name."""
    monkeypatch.setattr("searchbus_retrieval.service.MAX_COLLECTIONS", 1)
    await library.store("c", document("w", "Whales. " * 400))
    await library.store("d", document("v", "Dolphins.", collection="d"))
    async with Sizes(library, every_s=0.01) as counted:
        await until(lambda: len(list(counted.read(0))) == 2)
        assert list(counted.damaged()) == [(0, {})]
        assert [(n, dict(labels)) for n, labels in counted.read(0)] == [
            (1, {"collection": "c"}), (1, {"collection": "other"})
        ]  # fmt: skip
        assert [n for n, _ in counted.read(1)] == [4, 1]


async def test_failed_count_does_not_stop_the_next_one(library, monkeypatch):
    """The service works without these metrics; each failure is counted."""
    counted_failures: list[str] = []
    monkeypatch.setattr("searchbus_bus.telemetry.count_failed", counted_failures.append)
    failures = [RuntimeError("away"), RuntimeError("away")]
    count = library.list_collections

    async def failing():
        if failures:
            raise failures.pop()
        return await count()

    monkeypatch.setattr(library, "list_collections", failing)
    await library.store("c", document("w", "Whales."))
    async with Sizes(library, every_s=0.01) as counted:
        await until(lambda: list(counted.read(0)))
    assert counted_failures == ["sizes", "sizes"]
