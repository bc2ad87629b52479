"""The bootstrap: builds every part in order, takes replacements, closes what it opened."""

from __future__ import annotations

import dataclasses

import pytest

from searchbus_bus.client.discovery import EVERYONE
from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_bus.transport import Message
from searchbus_contracts import Actor
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_testing import known, until

from .conftest import dictionary_worker


def settings(tmp_path, **options) -> EdgeSettings:
    return EdgeSettings(_env_file=None, data_dir=tmp_path, **options)


async def test_edge_follows_the_services_and_ends_with_its_context(bus, tmp_path):
    """Its own composites appear when they are served on the bus."""
    async with open_edge(bus, settings(tmp_path)) as edge:
        assert edge.registry.toolsets == []
        await bus.serve(edge.connector)
        await known(edge.directory, "connector")
        assert edge.registry.toolsets == ["connector", "bulk"]
        assert list(edge.registry.view(None).tools) == [
            "fetch",
            "research_brief",
            "search",
            "verify_quote",
            "run_plan",
            "search_many",
        ]
        endpoint = edge.endpoints.get("connector")
        assert endpoint is edge.endpoints.get("connector")
        assert edge.endpoints.get("absent") is None


async def test_base_url_comes_from_the_settings_unless_given(bus, tmp_path):
    """It is the audience of tokens and the address of documents."""
    async with open_edge(bus, settings(tmp_path, port=81)) as edge:
        assert edge.authenticator.resource_url == "http://127.0.0.1:81"
    async with open_edge(bus, settings(tmp_path), base_url="http://x.example:9") as edge:
        assert edge.authenticator.resource_url == "http://x.example:9"


async def test_default_actor_is_injected(bus, tmp_path):
    """No module holds it: two edges of a process may have different ones."""
    reader = Actor(subject="reader", roles=("READER",))
    async with (
        open_edge(bus, settings(tmp_path), default_actor=reader) as edge,
        open_edge(bus, settings(tmp_path)) as other,
    ):
        assert await edge.authenticator.identify("", "/mcp") == reader
        assert (await other.authenticator.identify("", "/mcp")).roles == ("*",)


async def test_the_store_of_counts_is_replaceable(bus, broker, tmp_path):
    """The bus has a bucket for them only where no store is given."""
    async with open_edge(bus, settings(tmp_path), store=MemoryKeyValue(ttl_s=60)):
        assert "sb_limits" not in broker.buckets
    async with open_edge(bus, settings(tmp_path)):
        assert "sb_limits" in broker.buckets


async def test_edge_is_ready_without_a_service_that_is_away(bus, broker, tmp_path, dictionary):
    """One that is down must not take the others with it; it is named."""
    async with open_edge(bus, settings(tmp_path, required_services=("dictionary",))) as edge:
        assert await edge.ready()
        assert set(edge.away()) == {"dictionary"}
        await broker.connect(name="dictionary").serve(dictionary_worker(dictionary))
        await known(edge.directory, "dictionary")
        assert edge.away() == {}


async def test_ready_edge_lists_a_service_that_was_late_for_the_question_to_everyone(
    bus, broker, tmp_path, dictionary, monkeypatch
):
    """Clients of its endpoint would get 404 until the next round."""
    await broker.connect(name="dictionary").serve(dictionary_worker(dictionary))
    route = broker.route

    def lossy(message: Message) -> None:
        if message.subject != EVERYONE:
            route(message)

    monkeypatch.setattr(broker, "route", lossy)
    async with open_edge(bus, settings(tmp_path, required_services=("dictionary",))) as edge:
        assert await edge.ready()
        assert edge.away() == {}
        assert edge.endpoints.get("dictionary") is not None


async def test_edge_is_not_ready_before_it_has_discovered_services(bus, tmp_path):
    """While the bus is away it has nothing to list."""
    bus.transport.sever()
    async with open_edge(bus, settings(tmp_path)) as edge:
        assert not await edge.ready()
        bus.transport.restore()
        await edge.directory.refresh()
        await until(edge.ready)


async def test_parts_cannot_be_replaced_after_the_start(bus, tmp_path):
    """Replacements go to the bootstrap."""
    async with open_edge(bus, EdgeSettings(_env_file=None, data_dir=tmp_path)) as edge:
        with pytest.raises(dataclasses.FrozenInstanceError):
            edge.settings = None
        assert await edge.ready()
        await edge.end_streams()
