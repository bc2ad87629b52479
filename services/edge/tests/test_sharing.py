"""Keys and approved definitions that all edges share."""

from __future__ import annotations

import json

import pytest

from searchbus_bus import MemoryBroker
from searchbus_edge.auth.static_keys import KeyFile, StaticKeys
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.catalog.pinning import Pinning
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.sharing import join_keys, join_pins, shared_files, split_keys, split_pins
from searchbus_runtime.pins import PinFile, Pins


def settings(folder) -> EdgeSettings:
    folder.mkdir(exist_ok=True)
    return EdgeSettings(
        data_dir=folder, auth="static", hold_changes=("*",), share_files=True, _env_file=None
    )


@pytest.fixture
def tools(make_tool):
    return [make_tool("say").descriptor, make_tool("shout").descriptor]


def test_the_files_are_entries_and_back(tmp_path, tools):
    """As the edge and its commands write them."""
    keys = KeyFile(tmp_path / "keys.json")
    for name in ("laptop", "server"):
        keys.add(name, ("A",))
    content = json.loads(keys.path.read_text())
    assert join_keys(split_keys(content)) == content
    assert len(split_keys(content)) == 2
    pins = PinFile(tmp_path / "pins.json")
    with pins.changing() as changing:
        changing.approve("office", "office", tools)
        changing.approve("empty", "office", [])
    content = json.loads(pins.path.read_text())
    assert join_pins(split_pins(content)) == content
    assert set(split_pins(content)) == {"office", "office.say", "office.shout", "empty"}


async def test_a_key_is_valid_at_every_edge_until_it_is_revoked_at_one(tmp_path):
    """Commands change the file of one edge, as today."""
    broker, now_s = MemoryBroker(), [0.0]
    one, other = settings(tmp_path / "one"), settings(tmp_path / "other")
    async with (
        shared_files(broker.connect(), one) as of_one,
        shared_files(broker.connect(), other) as of_other,
    ):
        key, record = KeyFile(one.key_file).add("laptop", ())
        at_other = StaticKeys(KeyFile(other.key_file), clock=lambda: now_s[0])
        for file in (of_one["keys"], of_other["keys"]):
            await file.look()
        assert at_other.verify(key).actor.subject == f"key:{record.id}"
        KeyFile(other.key_file).revoke(record.id)
        for file in (of_other["keys"], of_one["keys"]):
            await file.look()
        assert KeyFile(one.key_file).read() == []


async def test_the_first_definitions_of_one_edge_are_those_of_all(tmp_path, tools):
    """A pod that starts anew does not approve what changed meanwhile."""
    broker = MemoryBroker()
    one, other = settings(tmp_path / "one"), settings(tmp_path / "other")
    async with shared_files(broker.connect(), one) as shared:
        Pinning(PinFile(one.pin_file), ["*"]).review("office", "office", tools)
        await shared["pins"].look()
    async with shared_files(broker.connect(), other) as shared:
        assert shared["pins"].reached
        changed = [*tools[:1], tools[1].__class__(**{**_fields(tools[1]), "description": "New."})]
        reviewed = Pinning(PinFile(other.pin_file), ["*"]).review("office", "office", changed)
        assert set(reviewed.held) == {"shout"}


def _fields(tool):
    return {name: getattr(tool, name) for name in tool.__struct_fields__}


async def test_nothing_is_approved_while_the_others_decisions_are_unknown(tmp_path, tools):
    """Then it is, without a restart; an edge that knows no keys is not ready."""
    broker, now_s = MemoryBroker(), [0.0]
    bus = broker.connect()
    bucket = await bus.key_value("edge_files", ttl_s=None, max_bytes=1)
    bucket.away = True
    own = settings(tmp_path / "own")
    async with open_edge(bus, own) as edge:
        (_, pins) = edge.shared
        pinning = Pinning(
            PinFile(own.pin_file), ["*"], may_pin=lambda: pins.reached, clock=lambda: now_s[0]
        )
        assert pinning.review("office", "office", tools).tools == ()
        assert not await edge.ready()
        before = pinning.generation
        bucket.away = False
        for file in edge.shared:
            await file.look()
        now_s[0] += 1.0
        assert pinning.generation > before
        assert pinning.review("office", "office", tools).tools == tuple(tools)
        assert PinFile(own.pin_file).read() != Pins()
        assert await edge.ready() == edge.directory.discovered
