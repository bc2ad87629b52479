"""The service is wired from its settings."""

from __future__ import annotations

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor
from searchbus_contracts.toolindex import FindReply, FindRequest
from searchbus_runtime import Process
from searchbus_toolindex import SERVICE
from searchbus_toolindex.finder import IndexFinder
from searchbus_toolindex.index import Index
from searchbus_toolindex.service import build_worker, start
from searchbus_toolindex.settings import ToolindexSettings

from .conftest import RecordingEmbedder, index_of, tool
from .test_follower import worker


def test_worker_offers_what_the_declaration_says():
    """Permissions on the bus are derived from the declaration."""
    made = build_worker(IndexFinder(Index(RecordingEmbedder.model), RecordingEmbedder()))
    assert set(made.endpoints) == set(SERVICE.endpoints)


async def test_service_finds_the_tools_of_others(tmp_path):
    """From the moment on that it serves; the vectors are kept in its data folder."""
    broker = MemoryBroker()
    await broker.connect().serve(worker(tool("send", "send mail")))
    settings = ToolindexSettings(embedder="hash", data_dir=tmp_path)
    process = Process("toolindex", settings, broker.connect())
    async with process.resources:
        await start(process)
        bus = broker.connect()
        reply = await bus.request(
            bus.subjects.endpoint("toolindex", "search"), FindRequest(query="send mail"),
            FindReply, service="toolindex", timeout_s=10, actor=Actor(subject="a"),
        )  # fmt: skip
        assert [found.name for found in reply.found] == ["send"]
        assert settings.vector_file(384).stat().st_size > 0


async def test_caller_finds_what_it_may_use():
    """By the roles of the request's actor."""
    index = index_of(
        tool("send", "send mail"), tool("secret_mail", "mail", required_roles=("SPY",))
    )
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(IndexFinder(index, RecordingEmbedder())))
    bus = broker.connect()

    async def names(*roles: str) -> set[str]:
        reply = await bus.request(
            bus.subjects.endpoint("toolindex", "search"), FindRequest(query="mail"), FindReply,
            service="toolindex", timeout_s=10, actor=Actor(subject="a", roles=roles),
        )  # fmt: skip
        return {found.name for found in reply.found}

    assert await names() == {"send"}
    assert await names("SPY") == {"send", "secret_mail"}


def test_prompts_have_a_placeholder_for_each_argument():
    """The edge fills them in; values of an argument are listed."""
    made = build_worker(IndexFinder(Index(RecordingEmbedder.model), RecordingEmbedder()))
    prompts = {p.name: p for p in made.catalog.prompts}
    assert sorted(prompts) == ["daily_news_brief", "research_question", "verify_claim"]
    for prompt in prompts.values():
        text = prompt.messages[0].content.text
        assert prompt.toolset == "research"
        assert all(f"{{{argument.name}}}" in text for argument in prompt.arguments)
        assert [a.required for a in prompt.arguments] == [True, False]
    assert prompts["research_question"].arguments[1].values == ("brief", "thorough")


def test_vectors_lie_in_the_data_folder(tmp_path, monkeypatch):
    """Those of one length in a file; the embedder is two models unless set."""
    path = ToolindexSettings(data_dir=tmp_path).vector_file(768)
    assert path == tmp_path / "toolindex/vectors-768.bin"
    assert (ToolindexSettings().embedder, ToolindexSettings().second_model) == ("model", True)
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    assert ToolindexSettings().embedder == "hash"
