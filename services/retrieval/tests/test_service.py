"""The service is wired from its settings."""

from __future__ import annotations

import pytest

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, Fault
from searchbus_contracts.ingest import IngestReply, IngestRequest
from searchbus_contracts.retrieval import ListReply, ListRequest
from searchbus_retrieval import SERVICE
from searchbus_retrieval.service import build_worker, load_model, start
from searchbus_retrieval.settings import RetrievalSettings
from searchbus_runtime import Process
from searchbus_testing.folders import quick_folder
from searchbus_vectors import ModelNotFound

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
    with pytest.raises(ModelNotFound, match=f"{tmp_path} of thenlper/gte-base lacks"):
        await load_model(settings, "thenlper/gte-base")
    with pytest.raises(ModelNotFound, match="SEARCHBUS_MODEL_DOWNLOAD"):
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
