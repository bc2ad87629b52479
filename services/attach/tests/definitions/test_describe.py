"""A server's list becomes descriptors; one bad tool harms no other."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.definitions import describe as module
from searchbus_attach.definitions.describe import describe

SERVER = parse_server("files", {"command": "x", "call_timeout_s": 12})
GOOD = {"name": "read", "description": "Read a file.", "inputSchema": {"type": "object"}}


def test_a_tool_is_described_whole():
    """Names, hints, schemas, and that its text is not ours."""
    tool = {
        **GOOD,
        "title": "Read",
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "annotations": {"readOnlyHint": True, "title": "Other"},
    }
    (found,) = describe(SERVER, [tool]).descriptors
    assert (found.name, found.toolset, found.qualified_name) == ("read", "files", "files__read")
    assert (found.title, found.description) == ("Read", "Read a file.")
    assert found.output_schema == tool["outputSchema"]
    assert msgspec.to_builtins(found.annotations) == {"readOnlyHint": True}
    assert (found.untrusted, found.timeout_ms) == (True, 12_000)


def test_control_characters_are_in_no_field():
    """Neither in the texts nor in the schema."""
    tool = {
        "name": "read",
        "title": "T\u202eitle",
        "description": "Read.\x1b[2J\u200b",
        "inputSchema": {"type": "object", "description": "x\x00y"},
    }
    (found,) = describe(SERVER, [tool]).descriptors
    assert (found.title, found.description) == ("Title", "Read.[2J")
    assert found.input_schema["description"] == "xy"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("text", "name"),
        ({}, "name"),
        ({**GOOD, "name": 3}, "name"),
        ({**GOOD, "name": "x" * 300}, "name"),
        ({"name": "no_schema"}, "input schema"),
        ({"name": "wrong", "inputSchema": {"type": "object", "properties": 1}}, "input schema"),
        ({"name": "out", "inputSchema": {"$ref": "http://a.example/"}}, "outside"),
        (GOOD, "another tool"),
    ],
)
def test_a_bad_tool_is_left_out_with_a_reason(bad, reason):
    """The others stay, before it and after it."""
    found = describe(SERVER, [GOOD, bad, {**GOOD, "name": "write"}])
    assert [tool.name for tool in found.descriptors] == ["read", "write"]
    ((_, why),) = found.refused.items()
    assert reason in why


def test_an_output_schema_that_cannot_be_used_is_left_out():
    """The tool works without it."""
    (found,) = describe(SERVER, [{**GOOD, "outputSchema": {"type": "string"}}]).descriptors
    assert found.output_schema is None


def test_a_long_description_is_cut_and_an_empty_one_filled():
    """Both bounds are those of the bus."""
    long, empty = describe(
        SERVER,
        [{**GOOD, "description": "x" * 100_000}, {**GOOD, "name": "b", "description": "\x00"}],
    ).descriptors
    assert len(long.description) <= 8192
    assert empty.description == "The tool b of files."


def test_a_list_without_end_is_cut(monkeypatch):
    """The tools beyond are named."""
    monkeypatch.setattr(module, "MAX_TOOLS", 3)
    found = describe(SERVER, [{**GOOD, "name": f"t{n}"} for n in range(5)])
    assert [tool.name for tool in found.descriptors] == ["t0", "t1", "t2"]
    assert set(found.refused) == {"t3", "t4"}


def test_definitions_have_a_limited_size(monkeypatch):
    """Each, and those of a server together: the catalogue of the service is limited too."""
    large = {**GOOD, "name": "large", "inputSchema": {"type": "object", "x": "y" * 2**18}}
    found = describe(SERVER, [large, GOOD])
    assert [tool.name for tool in found.descriptors] == ["read"]
    assert found.refused == {"large": "it is larger than 256 KiB"}
    monkeypatch.setattr(module, "_MAX_BYTES", 2**20)
    some = {"type": "object", "x": "y" * 2**17}
    found = describe(SERVER, [{**GOOD, "name": f"t{n}", "inputSchema": some} for n in range(9)])
    assert len(found.descriptors) == 7
    assert set(found.refused.values()) == {"the tools of a server may have 1 MiB together"}


def test_what_nobody_waits_for_any_more_is_not_done():
    """Thousands of tools take seconds of a thread."""
    late = iter([False, False, True])
    with pytest.raises(TimeoutError):
        describe(SERVER, [{**GOOD, "name": f"t{n}"} for n in range(9)], late.__next__)
    assert list(late) == []


def test_names_at_the_server_are_kept_for_calls():
    """A tool may be named in a way that the bus does not know."""
    found = describe(SERVER, [{**GOOD, "name": "read.file"}])
    ((name, own_name),) = found.own_names.items()
    assert own_name == "read.file"
    assert name != own_name
