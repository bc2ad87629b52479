"""Bytes of others at the catalogue, the cursor and the messages of the bus: typed errors only."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from searchbus_bus import MemoryBroker, Worker
from searchbus_bus.client.parts import ChunkMark
from searchbus_bus.transport import Message
from searchbus_contracts import Catalog, Fault, ToolDescriptor, decode_catalog, encode
from searchbus_contracts.headers import (
    ACTOR,
    ACTOR_GRANT,
    ACTOR_KEY,
    ACTOR_SIG,
    CHUNK,
    DEADLINE_MS,
    ERROR_CODE,
    EVENT,
    PARTS,
    REQ_ID,
    TIMEOUT_MS,
    TRACEPARENT,
)
from searchbus_edge.auth.signing import CursorError, Cursors
from searchbus_edge.catalog.view import validator
from searchbus_testing import until


def effort(most: int) -> pytest.MarkDecorator:
    """A hundred examples, and, as a slow test, as many as take a quarter of a minute."""
    slow = pytest.param(most, marks=pytest.mark.slow, id="many")
    return pytest.mark.parametrize("examples", [100, slow])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYWORDS = st.sampled_from([
    "type", "$ref", "$id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$defs", "anyOf",
    "allOf", "not", "if", "properties", "items", "pattern", "patternProperties", "enum", "required",
])  # fmt: skip
VALUES = st.sampled_from(
    ["object", "string", "#", "#/$defs/a", "#a", "a", "http://127.0.0.1:9/", 1, True]
)
SCHEMAS = st.recursive(
    VALUES | JSON,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | st.just("a"), inner, max_size=4)
    ),
    max_leaves=15,
)
NAMES = st.sampled_from(["a", "b", "lazy", "connector", "a b", "", "x" * 65, "\x00", "é"]) | JSON
TOOLS = st.fixed_dictionaries(
    {"name": NAMES, "toolset": NAMES, "description": NAMES},
    optional={
        "input_schema": SCHEMAS | st.dictionaries(KEYWORDS, SCHEMAS, max_size=4).map(lambda s: {**s, "type": "object"}),
        "output_schema": SCHEMAS, "annotations": JSON, "required_roles": JSON, "timeout_ms": JSON,
        "uri": NAMES, "uri_template": st.text("{}a/:.", max_size=12), "messages": JSON,
    },
)  # fmt: skip
CATALOGS = st.fixed_dictionaries(
    {"service": st.sampled_from(["a", "connector"]) | JSON},
    optional={
        kind: st.lists(TOOLS | JSON, max_size=4)
        for kind in ("tools", "prompts", "resources", "resource_templates")
    },
)


@effort(500)
def test_any_catalogue_is_read_or_refused(examples):
    """What is kept is well formed: it can be hashed, sent again, and its schemas compiled or refused."""

    @settings(max_examples=examples)
    @given(CATALOGS.map(lambda c: json.dumps(c).encode()) | st.binary(max_size=60))
    @example(b"[" * 5000)
    @example(b'{"service":"a","tools":[' + b"[" * 900 + b"]" * 900 + b"]}")
    def check(data: bytes) -> None:
        try:
            catalog, refusals = decode_catalog(data)
        except Fault as fault:
            assert fault.code == "invalid_argument"
            return
        assert decode_catalog(encode(catalog)) == (catalog, [])
        assert len(catalog.digest) == 32
        assert all(len(refusal.name) <= 80 for refusal in refusals)
        for tool in catalog.tools:
            try:
                validator(tool.input_schema).is_valid({"a": [1, "b", {}]})
            except ValueError:
                continue

    check()


@effort(6_600)
def test_any_cursor_is_refused_but_our_own(examples):
    """For another list, query or caller too."""
    cursors = Cursors(b"k" * 32)
    own = cursors.issue({"o": 5}, "tools", None, "alice")

    @settings(max_examples=examples)
    @given(
        st.text(max_size=40) | st.binary(max_size=60).map(lambda b: b.decode("latin-1"))
        | st.tuples(st.integers(0, len(own)), st.characters()).map(lambda c: own[: c[0]] + c[1] + own[c[0] + 1 :])
        | st.integers(0, len(own)).map(lambda n: own[:n]) | st.just(own + "="),
        st.sampled_from([("tools", None, "alice"), ("tools", None, "bob"), ("prompts", None, "alice"), ()]),
    )  # fmt: skip
    @example(own, ("tools", None, "bob"))
    @example(own, ("tools", "None", "alice"))
    @example("A" * 100_000, ())
    def check(cursor: str, bound: tuple[Any, ...]) -> None:
        try:
            state = cursors.read(cursor, *bound)
        except CursorError:
            return
        assert (cursor, bound, state) == (own, ("tools", None, "alice"), {"o": 5})

    check()


HEADER = st.text(max_size=30) | st.sampled_from([
    "0", "-1", "1", "30000", "9" * 400, "1e9", "nan", "progress", "log", "0/1 1 " + "0" * 64, "1/0 0 x", "é",
    "99999/99999 9999999999 " + "a" * 64, '{"subject":"x","count":1}', '{"subject":"a"}', "00-1-1-01", "[" * 3000,
    '{"subject":"_INBOX.x.part","count":4096,"size_bytes":1,"sha256":"' + "0" * 64 + '"}', "²",
])  # fmt: skip
NAMED = st.sampled_from(
    [
        ACTOR,
        ACTOR_SIG,
        ACTOR_KEY,
        ACTOR_GRANT,
        CHUNK,
        EVENT,
        PARTS,
        REQ_ID,
        TIMEOUT_MS,
        DEADLINE_MS,
        TRACEPARENT,
        ERROR_CODE,
    ]
)
HEADERS = st.dictionaries(NAMED | st.text(min_size=1, max_size=5), HEADER, max_size=4)
BODIES = st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode())


@effort(2_600)
async def test_any_request_gets_one_answer_and_ends_nothing(examples):
    """A worker answers each message once, and the next well-formed one as ever."""
    broker = MemoryBroker()
    worker = Worker("office", max_in_flight=10_000)

    async def reply(call: Any, request: Any) -> Any:
        return msgspec.json.decode(b'{"content":[]}')

    descriptor = ToolDescriptor(
        name="say", toolset="office", description=".", input_schema={"type": "object"}
    )
    worker.add_tool(descriptor, reply)
    serving = await broker.connect(name="office").serve(worker)
    bus = broker.connect(name="attacker")
    sent: list[tuple[bytes, dict[str, str]]] = []

    @settings(max_examples=examples)
    @given(BODIES, HEADERS)
    def collect(data: bytes, headers: dict[str, str]) -> None:
        sent.append((data, headers))

    collect()
    answers: dict[str, int] = {}

    async def note(message: Message) -> None:
        if EVENT not in message.headers:
            answers[message.subject] = answers.get(message.subject, 0) + 1

    await bus.transport.subscribe("_INBOX.fuzz.*", note)
    sent = [(d, {**h, TIMEOUT_MS: h.get(TIMEOUT_MS, "500")}) for d, h in sent]
    sent.append((b'{"tool":"say"}', {}))
    for number, (data, headers) in enumerate(sent):
        inbox = f"_INBOX.fuzz.{number}"
        await bus.transport.publish("sb.v1.tool.office.say", data, reply=inbox, headers=headers)
        if number % 100 == 0:
            await asyncio.sleep(0)
    await until(lambda: len(answers) == len(sent), message=lambda: f"{len(answers)} of {len(sent)}")
    assert set(answers.values()) == {1}
    assert await serving.healthy()


@effort(3_300)
async def test_any_reply_is_an_outcome(examples):
    """A request ends in a reply or a typed failure, and the connection goes on."""
    broker = MemoryBroker()
    service, bus = broker.connect(name="rogue"), broker.connect(name="edge")
    replies: list[list[tuple[bytes, dict[str, str]]]] = []

    @settings(max_examples=examples)
    @given(st.lists(st.tuples(BODIES, HEADERS), min_size=1, max_size=3))
    def collect(messages: list[tuple[bytes, dict[str, str]]]) -> None:
        replies.append(messages)

    collect()

    async def answer(message: Message) -> None:
        for data, headers in replies[int(message.data)]:
            await service.transport.publish(message.reply, data, headers=headers)
        # The last one ends it, where nothing before did.
        await service.transport.publish(message.reply, b"{}")

    await service.transport.subscribe("sb.v1.rogue.say", answer)
    for number in range(len(replies)):
        try:
            await bus.request(
                "sb.v1.rogue.say", number, msgspec.Raw, service="rogue", timeout_s=60,
                idempotent=False, on_event=lambda event: None,
            )  # fmt: skip
        except Fault as fault:
            assert fault.code != "deadline_exceeded"
    assert bus.in_flight == 0


@effort(2_600)
async def test_any_announcement_is_a_worker_or_ignored(examples):
    """Replies to `$SRV.INFO` come from whoever wants; true workers are found among them."""
    texts = st.text(max_size=10) | st.sampled_from(["v1", "9" * 5000, "²", "-1", "1.5"])
    keys = st.sampled_from(["searchbus", "catalog", "started_ms"])
    info = st.fixed_dictionaries(
        {"name": NAMES, "id": texts, "version": texts},
        optional={"metadata": st.dictionaries(keys, texts) | JSON},
    )
    replies: list[bytes] = [b"[" * 100_000]

    @settings(max_examples=examples)
    @given(info.map(lambda value: json.dumps(value).encode()) | BODIES)
    def collect(data: bytes) -> None:
        replies.append(data)

    collect()
    broker = MemoryBroker()
    rogue, bus = broker.connect(name="rogue"), broker.connect(name="edge")

    async def answer(message: Message) -> None:
        for data in replies:
            await rogue.transport.publish(message.reply, data)

    await rogue.transport.subscribe("$SRV.INFO", answer)
    await broker.connect(name="office").serve(Worker("office"))
    found = await bus.workers()
    assert "office" in {worker.service for worker in found}
    assert all(worker.started_ms >= 0 for worker in found)


@effort(2_600)
def test_any_mark_of_a_part_is_read_or_refused(examples):
    @settings(max_examples=examples)
    @given(HEADER | st.from_regex(r"\d{1,6}/\d{1,6} \d{1,11} [0-9a-f]{63,65}\n?", fullmatch=True))
    def check(value: str) -> None:
        try:
            assert str(ChunkMark.parse(value)).isascii()
        except Fault as fault:
            assert fault.code == "internal"

    check()


def test_a_catalogue_of_a_kind_is_empty_without_it():
    """The fuzzer's own input is one that can be read."""
    assert decode_catalog(b'{"service":"a"}') == (Catalog(service="a"), [])
