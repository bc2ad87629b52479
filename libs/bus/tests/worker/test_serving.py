"""A worker on the bus: subscriptions, discovery, refresh, stepping out. See also test_behaviour."""

from __future__ import annotations

import asyncio
import json

import pytest
from msgspec import Struct

from searchbus_bus import Bus, Call, MemoryBroker, Toolset, Worker, endpoint, tool
from searchbus_bus.client.inbox import InboxQuestion
from searchbus_contracts import (
    Catalog,
    CatalogEvent,
    CatalogRequest,
    ErrorCode,
    Fault,
    PromptDescriptor,
    ResourceBody,
    ResourceReadReply,
    ResourceReadRequest,
    ToolCall,
    ToolDescriptor,
    ToolReply,
    decode,
)
from searchbus_contracts.resources import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
)
from searchbus_contracts.subjects import DISCOVERY
from searchbus_testing import until


class Word(Struct):
    word: str = ""


class Words(Toolset, name="words"):
    @tool(title="Echo")
    async def echo(self, call: Call, arguments: Word) -> Word:
        """Repeat a word."""
        return arguments


class Endpoints:
    @endpoint
    async def say(self, call: Call, request: Word) -> Word:
        return request


class Far:
    async def read(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        return ResourceReadReply(contents=(ResourceBody(uri="a", text=f"of {request.uri}"),))

    async def get_prompt(self, call: Call, request: PromptGetRequest) -> PromptGetReply:
        return PromptGetReply(description=f"of {request.prompt}")

    async def complete(self, call: Call, request: CompleteRequest) -> CompleteReply:
        return CompleteReply(values=(f"of {request.name}",))


def dictionary() -> Worker:
    worker = Worker("dictionary", version="1.2.3", description="Words.", max_in_flight=2)
    worker.add(Words(), Endpoints())
    return worker


@pytest.fixture
async def events():
    """A broker, a connection, and the events of workers as (event, catalogue)."""
    broker = MemoryBroker()
    bus = broker.connect(name="test")
    found: list[tuple[str, str]] = []

    async def on_event(subject: str, data: bytes) -> None:
        event = decode(data, CatalogEvent)
        found.append((event.event, event.catalog))

    await bus.subscribe(bus.subjects.catalog_events(), on_event)
    yield broker, bus, found
    await bus.close()


async def say(bus) -> Word:
    return await bus.request(
        bus.subjects.endpoint("dictionary", "say"), Word("x"), Word, service="dictionary",
        timeout_s=60,
    )  # fmt: skip


async def test_discovery_describes_the_worker(events):
    """Name, version, catalogue, and the subjects with their queue group."""
    broker, bus, _ = events
    serving = await broker.connect().serve(dictionary())
    question = InboxQuestion("$SRV.INFO", DISCOVERY)
    ((reply,),) = await bus._requester.inbox.collect([question], quiet_s=0.05, most_s=60)
    info = json.loads(reply)
    assert (info["name"], info["version"], info["description"]) == ("dictionary", "1.2.3", "Words.")
    assert info["id"] == serving.instance
    assert info["metadata"]["catalog"] == serving.worker.catalog.digest
    assert info["metadata"]["searchbus"] == "v1"
    assert int(info["metadata"]["started_ms"]) > 0
    assert {e["subject"] for e in info["endpoints"]} == {
        "sb.v1.dictionary.say",
        "sb.v1.tool.words.*",
        f"sb.v1.catalog.dictionary.{serving.worker.catalog.digest}",
    }
    assert {e["queue_group"] for e in info["endpoints"]} == {"dictionary"}


async def test_a_reader_of_another_version_is_said_once(events, caplog):
    """Its side logs the same; a reader of this version, or of none, is not worth a line."""
    broker, bus, _ = events
    serving = await broker.connect().serve(dictionary())
    for headers in (None, {"searchbus": "v1"}, {"searchbus": "v2"}, {"searchbus": "v2"}):
        question = InboxQuestion("$SRV.INFO", DISCOVERY, headers=headers)
        await bus._requester.inbox.collect([question], quiet_s=0.05, most_s=60)
    (line,) = [text for text in caplog.messages if "of the wire" in text]
    assert "dictionary, uses version v1 of the wire, an edge on the bus 'v2'" in line
    await serving.drain()


async def test_a_reader_says_its_version(transport):
    """So that a worker of another one can log it."""
    asked = []

    async def keep(message):
        asked.append((message.subject, message.headers.get("searchbus")))

    transport.on_publish = keep
    await Bus(transport).workers(quiet_s=0, known={"b": 1})
    assert asked == [("$SRV.INFO", "v1"), ("$SRV.INFO.b", None)]


async def test_content_that_is_known_at_run_time_is_served_and_taken_back(events):
    """A worker that offers other prompts and resources later serves these, and no longer those."""
    broker, bus, _ = events
    worker = dictionary()
    serving = await broker.connect().serve(worker)

    async def fill() -> PromptGetReply:
        return await bus.request(
            bus.subjects.prompt("far", "get"), PromptGetRequest(prompt="greet"), PromptGetReply,
            service="dictionary", timeout_s=60,
        )  # fmt: skip

    worker.offer("far", prompts=[PromptDescriptor(name="greet", toolset="far")], source=Far())
    await serving.refresh()
    assert (await fill()).description == "of greet"
    read = await bus.request(
        bus.subjects.resource("far", "read"), ResourceReadRequest(uri="a://b"), ResourceReadReply,
        service="dictionary", timeout_s=60,
    )  # fmt: skip
    assert read.contents[0].text == "of a://b"
    for subject in (
        bus.subjects.prompt("far", "complete"),
        bus.subjects.resource("far", "complete"),
    ):
        reply = await bus.request(
            subject, CompleteRequest(name="greet", argument="name"), CompleteReply,
            service="dictionary", timeout_s=60,
        )  # fmt: skip
        assert reply.values == ("of greet",)
    worker.offer("far")
    await serving.refresh()
    assert worker.catalog.toolsets == ("words",)
    with pytest.raises(Fault, match="No worker is running"):
        await fill()
    await serving.drain()


async def test_the_catalogue_is_served_under_its_hash(events):
    """Also the new one after a refresh."""
    broker, bus, found = events
    worker = dictionary()
    serving = await broker.connect().serve(worker)

    async def fetch(digest: str) -> Catalog:
        return await bus.request(
            bus.subjects.catalog("dictionary", digest), CatalogRequest(), Catalog, service="dictionary",
            timeout_s=60,
        )  # fmt: skip

    first = worker.catalog.digest
    assert (await fetch(first)).digest == first

    async def reply(call: Call, request: ToolCall) -> ToolReply:
        return ToolReply()

    worker.add_tool(
        ToolDescriptor(name="new", toolset="added", description="d", input_schema={"type": "object"}),
        reply,
    )  # fmt: skip
    await serving.refresh()
    second = worker.catalog.digest
    assert (await fetch(second)).toolsets == ("added", "words")
    with pytest.raises(Fault, match="No worker is running"):
        await fetch(first)
    await bus.request(
        bus.subjects.tool("added", "new"), ToolCall(tool="new"), ToolReply, service="dictionary",
        timeout_s=60,
    )  # fmt: skip
    await serving.drain()
    await until(lambda: len(found) == 3)
    assert found == [("up", first), ("changed", second), ("down", second)]


async def test_a_call_must_name_the_tool_of_its_subject(events):
    """The subject decides about permissions, so the body must not name another tool."""
    broker, bus, _ = events
    await broker.connect().serve(dictionary())
    for subject, name in (("echo", "other"), ("other", "echo"), ("other", "other")):
        with pytest.raises(Fault, match="no tool of that name"):
            await bus.request(
                bus.subjects.tool("words", subject), ToolCall(tool=name), ToolReply,
                service="dictionary", timeout_s=60,
            )  # fmt: skip


async def test_a_worker_that_stepped_out_gets_no_requests(events):
    """It stays in discovery and comes back."""
    broker, bus, _ = events
    serving = await broker.connect().serve(dictionary())
    await serving.step_out()
    with pytest.raises(Fault, match="No worker is running"):
        await say(bus)
    assert await serving.healthy(timeout_s=60)
    assert len(await bus.workers(quiet_s=0.05)) == 1
    await serving.step_in()
    assert await say(bus) == Word("x")


async def test_a_drained_worker_does_not_step_in(events):
    """A drain is final, and a second one does nothing."""
    broker, bus, _ = events
    serving = await broker.connect().serve(dictionary())
    await serving.drain()
    await serving.step_in()
    await serving.drain()
    with pytest.raises(Fault, match="No worker is running"):
        await say(bus)
    assert await bus.workers(quiet_s=0.05) == []


def add_tool(worker: Worker, toolset: str, name: str) -> None:
    async def reply(call: Call, request: ToolCall) -> ToolReply:
        return ToolReply()

    worker.add_tool(
        ToolDescriptor(name=name, toolset=toolset, description="d", input_schema={"type": "object"}),
        reply,
    )  # fmt: skip


async def use(bus, toolset: str, name: str) -> ToolReply:
    return await bus.request(
        bus.subjects.tool(toolset, name), ToolCall(tool=name), ToolReply, service="dictionary",
        timeout_s=60,
    )  # fmt: skip


async def test_a_refresh_on_standby_joins_no_queue_group(events):
    """New tools are announced at once, and called once the worker is back."""
    broker, bus, found = events
    worker = dictionary()
    serving = await broker.connect().serve(worker)
    await serving.step_out()
    add_tool(worker, "added", "new")
    await serving.refresh()
    await until(lambda: found[-1] == ("changed", worker.catalog.digest))
    for toolset, name in (("added", "new"), ("words", "echo")):
        with pytest.raises(Fault, match="No worker is running"):
            await use(bus, toolset, name)
    await serving.step_in()
    await use(bus, "added", "new")
    await use(bus, "words", "echo")


async def test_a_toolset_that_is_gone_is_served_no_more(events):
    """Another service may offer it: it would get only some of the calls."""
    broker, bus, _ = events
    worker = dictionary()
    add_tool(worker, "added", "new")
    serving = await broker.connect().serve(worker)
    del worker._tools["added", "new"]
    await serving.refresh()
    with pytest.raises(Fault, match="No worker is running"):
        await use(bus, "added", "new")
    await use(bus, "words", "echo")


async def test_refreshes_at_once_and_during_a_drain_end_in_one_state(events):
    """Each catalogue is withdrawn once, and nothing is announced after `down`."""
    broker, bus, found = events
    worker = dictionary()
    serving = await broker.connect().serve(worker)
    for number in range(3):
        add_tool(worker, "added", f"new{number}")
        await asyncio.gather(*(serving.refresh() for _ in range(3)))
    (info,) = await bus.workers(quiet_s=0.05)
    assert info.catalog == worker.catalog.digest
    await asyncio.gather(serving.refresh(), serving.drain(), serving.refresh())
    await serving.refresh()
    await bus.transport.flush()
    await until(lambda: found[-1][0] == "down")
    assert [event for event, _ in found].count("down") == 1
    with pytest.raises(Fault, match="No worker is running"):
        await use(bus, "added", "new0")


async def test_a_malformed_cancellation_is_ignored_logged_and_counted(events, monkeypatch, caplog):
    """It stops nothing."""
    broker, bus, _ = events
    counted = []
    monkeypatch.setattr("searchbus_bus.telemetry.count_error", counted.append)
    await broker.connect().serve(dictionary())
    await bus.transport.publish(bus.subjects.cancel("dictionary"), b"\xff{")
    await until(lambda: counted == ["cancel"])
    assert "a cancellation on sb.v1.ctl.cancel.dictionary is malformed" in caplog.text
    assert await say(bus) == Word("x")


async def test_messages_without_a_reply_subject_are_counted_only(events):
    """A reply could not be delivered."""
    broker, bus, _ = events
    serving = await broker.connect().serve(dictionary())
    await bus.transport.publish(bus.subjects.endpoint("dictionary", "say"), b"{}")
    await until(lambda: serving.unanswerable == 1)
    assert (serving.served, serving.in_flight) == (0, 0)


async def test_a_worker_without_a_connection_is_healthy(events):
    """A restart would not bring NATS back."""
    broker, _, _ = events
    bus = broker.connect()
    serving = await bus.serve(dictionary())
    bus.transport.sever()
    assert await serving.healthy(timeout_s=60)


async def test_a_toolset_without_tools_is_no_longer_served(connect_bus):
    """Its subject has no subscriber then; when it is back, it is served again."""
    worker = Worker("words")
    descriptor = ToolDescriptor(
        name="look", toolset="late", description="Look.", input_schema={"type": "object"}
    )

    async def look(call: Call, request: ToolCall) -> ToolReply:
        return ToolReply()

    worker.add_tool(descriptor, look)
    serving = await (await connect_bus("words")).serve(worker)
    client = await connect_bus("client")
    subject = client.subjects.tool("late", "look")

    async def ask() -> ToolReply:
        request = ToolCall(tool="look")
        return await client.request(subject, request, ToolReply, service="words", timeout_s=10)

    for _ in range(2):
        await ask()
        worker.remove_tool("late", "look")
        await serving.refresh()
        with pytest.raises(Fault) as fault:
            await ask()
        assert fault.value.code == ErrorCode.UNAVAILABLE
        worker.add_tool(descriptor, look)
        await serving.refresh()
    await ask()
