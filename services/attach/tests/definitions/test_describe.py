"""A server's list becomes descriptors; one bad tool harms no other."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.definitions import describe as module
from searchbus_attach.definitions.describe import (
    MAX_BYTES,
    MAX_ITEMS,
    ListedContents,
    content_annotations,
    describe,
    describe_contents,
)
from searchbus_contracts import encode

from ..conftest import plain

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


def described(**listed):
    return describe_contents(plain(), ListedContents(**listed))


def test_prompts_have_their_own_and_a_qualified_name():
    """A name that a subject cannot have is replaced."""
    found = described(prompts=[{"name": "greet"}, {"name": "with picture"}], completes=True)
    greet, other = found.prompts
    assert (greet.name, greet.qualified_name) == ("greet", "plain__greet")
    assert other.name.startswith("with_picture_")
    assert found.own_names == {"greet": "greet", other.name: "with picture"}
    assert greet.untrusted
    assert not greet.completes  # it has no arguments
    assert found.templates == ()


def test_resources_and_templates_have_wrapped_addresses():
    """With one for all that the server does not list, and one for views, for reading only."""
    found = described(
        resources=[{"uri": "a:b", "name": "b", "mimeType": "text/plain", "size": 3}],
        templates=[{"uriTemplate": "a:{id}", "name": "by id"}],
        completes=True,
    )
    (resource,), (template, unlisted, views) = found.resources, found.templates
    assert resource.uri == "searchbus://attach/plain/a:b"
    assert (resource.mime_type, resource.size_bytes) == ("text/plain", 3)
    assert template.uri_template == "searchbus://attach/plain/a:{id}"
    assert (template.listed, template.completes) == (True, True)
    assert unlisted.uri_template == "searchbus://attach/plain/{+uri}"
    assert views.uri_template.endswith("{+uri}")
    assert not unlisted.listed
    assert not views.listed
    assert all(item.untrusted for item in (resource, template, unlisted, views))


@pytest.mark.parametrize(
    ("kind", "item", "reason"),
    [
        ("prompts", 3, "no usable name"),
        ("prompts", {"name": ""}, "no usable name"),
        ("prompts", {"name": "p", "arguments": [{"name": "a b"}]}, "token"),
        ("prompts", {"name": "p", "arguments": [{}]}, "has no name"),
        ("prompts", {"name": "p", "arguments": {}}, ""),
        ("resources", {"name": "r"}, "no usable URI"),
        ("resources", {"name": "r", "uri": "a:\u202eb"}, "no usable URI"),
        ("resources", {"name": "r", "uri": "a b"}, "a space"),
        ("resources", {"name": "r", "uri": "a:" + "b" * 3000}, "2048"),
        ("templates", {"name": "t", "uriTemplate": "a:{b}{c}"}, "two variables"),
        ("templates", {"name": "t", "uriTemplate": "a:" + "/{b}" * 17}, "over 16 variables"),
        ("templates", {"name": "t", "uriTemplate": f"a:{{b}}{'c' * 129}{{d}}"}, "over 128"),
    ],
)
def test_a_malformed_one_is_left_out_with_a_reason(kind, item, reason):
    """The others stay."""
    good = {"name": "good", "uri": "a:good", "uriTemplate": "a:{good}"}
    found = described(**{kind: [item, good]})
    names = [i.name for i in getattr(found, kind) if i.name != "any"]
    if reason:
        ((_, why),) = found.refused.items()
        assert reason in why
        assert names == ["good"]
    else:
        assert names == ["p", "good"]


def test_names_and_addresses_are_there_once_and_not_without_end():
    """The first counts."""
    found = described(prompts=[{"name": "p", "title": "1"}, {"name": "p", "title": "2"}])
    assert [prompt.title for prompt in found.prompts] == ["1"]
    assert found.refused == {"prompt p": "another prompt has its name or address"}
    many = [{"uri": f"a:{n}", "name": f"r{n}"} for n in range(MAX_ITEMS + 1)]
    found = described(resources=many)
    assert len(found.resources) == MAX_ITEMS
    assert len(found.refused) == 1


def test_they_have_a_limited_size_together():
    """The catalogue of all servers has one, and what comes after it is lost."""
    arguments = [{"name": f"a{n}", "description": "é" * 2000} for n in range(100)]
    found = described(
        prompts=[{"name": f"p{n}", "arguments": arguments} for n in range(30)],
        resources=[{"uri": "a:b", "name": "small"}],
    )
    size_bytes = sum(len(encode(prompt)) for prompt in found.prompts)
    assert MAX_BYTES - len(encode(found.prompts[0])) < size_bytes <= MAX_BYTES
    assert "exceed the limit" in found.refused["prompt beyond 8 MiB"]
    assert found.resources


def test_one_that_nobody_waits_for_ends():
    """It may run in a thread."""
    with pytest.raises(TimeoutError):
        describe_contents(plain(), ListedContents(prompts=[{"name": "p"}]), lambda: True)


def test_texts_are_cleaned():
    """As those of tools."""
    found = described(
        prompts=[{"name": "p", "title": "a\u200bb\n", "description": "c\u202ed" * 9999}]
    )
    (prompt,) = found.prompts
    assert prompt.title == "ab"
    assert prompt.description.startswith("cdcd")
    assert len(prompt.description) == 2000


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (None, None),
        ({}, None),
        ({"priority": 2}, None),
        ({"priority": 1, "x": 1}, {"priority": 1}),
        ({"audience": ["user", "robot"]}, {"audience": ["user"]}),
        ({"lastModified": "2026-01-01T00:00:00Z"}, {"lastModified": "2026-01-01T00:00:00Z"}),
        ({"audience": "user", "priority": True, "lastModified": 3}, None),
    ],
)
def test_hints_about_content_that_are_not_valid_are_left_out(found, kept):
    """One that is wrong would make clients refuse the whole list."""
    assert content_annotations(found) == kept
