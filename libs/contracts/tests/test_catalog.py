"""Catalogues: equal content has an equal hash, and one malformed descriptor stays alone."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from searchbus_contracts import (
    Catalog,
    CatalogPart,
    Fault,
    PromptArgument,
    PromptDescriptor,
    PromptMessage,
    ResourceDescriptor,
    ResourceTemplate,
    TextContent,
    ToolDescriptor,
    catalog,
    decode_catalog,
    encode,
)
from searchbus_contracts.catalog import KINDS, pack, part_hash, unpack

TOOL = ToolDescriptor(
    name="lookup", toolset="dictionary", description="d", input_schema={"type": "object"}
)
PROMPT = PromptDescriptor(
    name="explain",
    toolset="prompts",
    messages=(PromptMessage(role="user", content=TextContent(text="Explain {word}.")),),
    arguments=(PromptArgument(name="word", required=True),),
)
CATALOG = Catalog(
    service="words",
    tools=(TOOL,),
    prompts=(PROMPT,),
    resources=(ResourceDescriptor(uri="dictionary://about", name="about", toolset="dictionary"),),
    resource_templates=(
        ResourceTemplate(uri_template="letters://{letter}", name="letter", toolset="letters"),
    ),
)


def test_digest_is_32_hex_digits_over_the_content():
    """Equal catalogues have equal digests, whatever the order of a schema's keys."""
    properties = {"a": {"type": "string"}, "b": {"type": "string"}}
    swapped = dict(reversed(properties.items()))
    one = replace(TOOL, input_schema={"type": "object", "properties": properties})
    two = replace(TOOL, input_schema={"properties": swapped, "type": "object"})
    digest = Catalog(service="words", tools=(one,)).digest
    assert digest == Catalog(service="words", tools=(two,)).digest
    assert len(digest) == 32
    assert set(digest) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    "changed",
    [
        replace(CATALOG, service="other"),
        replace(CATALOG, tools=(replace(TOOL, description="e"),)),
        replace(CATALOG, prompts=()),
        replace(CATALOG, resources=()),
        replace(CATALOG, resource_templates=()),
    ],
)
def test_every_part_of_a_catalogue_counts_in_its_digest(changed):
    """A change of any part gives another digest."""
    assert changed.digest != CATALOG.digest


def test_toolsets_are_those_of_all_descriptors():
    """Tools, prompts, resources and templates name them; each appears once, sorted."""
    assert CATALOG.toolsets == ("dictionary", "letters", "prompts")
    assert Catalog(service="words").toolsets == ()


@pytest.mark.parametrize("bad", ["a b", "a.b", "", "x" * 65, "a\n"])
def test_prompt_names_are_subject_tokens(bad):
    """The name, the toolset and the arguments' names."""
    for change in ({"name": bad}, {"toolset": bad}, {"arguments": (PromptArgument(name=bad),)}):
        with pytest.raises(ValueError, match="subject token"):
            replace(PROMPT, **change)


LINES = st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=5)


def test_hash_is_that_of_unpacked_parts():
    """So that workers and readers of both forms name a part alike."""
    expected = hashlib.sha256(b'prompts{"a":1}{"b":2}').hexdigest()[:32]
    assert part_hash("prompts", [b'{"a":1}', b'{"b":2}']) == expected


@given(st.sampled_from(KINDS), LINES)
def test_unpacking_gives_what_was_packed(kind, lines):
    """Any bytes without a line break, in their order."""
    assert unpack(pack(kind, lines), part_hash(kind, lines), max_bytes=10_000) == (kind, lines)


@given(st.binary(max_size=100))
@example(pack("tools", [b"a"]))
@example(b"")
def test_anything_else_is_refused(data):
    """With one kind of failure."""
    with pytest.raises(Fault, match="of the catalogue"):
        unpack(data, "0" * 32, max_bytes=10_000)


@pytest.mark.parametrize("max_bytes", [-5, 0, 1, 500])
def test_no_more_than_the_limit_is_decompressed(max_bytes):
    """Zero and less are limits, too."""
    lines = [b"x" * 1000]
    with pytest.raises(Fault, match="too large"):
        unpack(pack("tools", lines), part_hash("tools", lines), max_bytes=max_bytes)


def test_a_catalogue_survives_the_wire():
    """Encoding and decoding gives the same catalogue and no refusals."""
    assert decode_catalog(encode(CATALOG)) == (CATALOG, [])


@pytest.mark.parametrize(
    ("kind", "key", "broken", "name"),
    [
        ("tool", "tools", {"name": "bad name", "toolset": "x"}, "bad name"),
        (
            "tool",
            "tools",
            {"name": "x", "toolset": "y", "description": "d", "input_schema": {}},
            "x",
        ),
        ("prompt", "prompts", {"name": "empty", "toolset": "", "messages": []}, "empty"),
        ("resource", "resources", {"uri": ""}, "(unnamed)"),
        ("resource template", "resource_templates", 7, "(unreadable)"),
    ],
)
def test_a_malformed_descriptor_is_left_out_with_its_name_and_reason(kind, key, broken, name):
    """The others of the catalogue stay."""
    body = json.loads(encode(CATALOG))
    body[key].append(broken)
    catalog, (refusal,) = decode_catalog(json.dumps(body).encode())
    assert catalog == CATALOG
    assert (refusal.kind, refusal.name) == (kind, name)
    assert refusal.reason


def test_the_name_of_a_refused_descriptor_is_cut():
    """A refusal goes to the log, whatever a worker sends."""
    body = {"service": "words", "tools": [{"name": "x" * 5000}]}
    _, (refusal,) = decode_catalog(json.dumps(body).encode())
    assert refusal.name == "x" * 80


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"service": "a b"}', b"\xff"])
def test_an_unreadable_catalogue_is_a_fault(data):
    """Without a service's name there is nothing to list."""
    with pytest.raises(Fault) as caught:
        decode_catalog(data)
    assert caught.value.code == "invalid_argument"


def test_a_toolset_of_the_edge_is_refused_from_others():
    """A worker cannot put its own tools in the place of find_tools."""
    tool = {"name": "find_tools", "toolset": "lazy", "input_schema": {"type": "object"}}
    for service, kept in (("ddg", 0), ("connector", 1)):
        body = {"service": service, "tools": [{**tool, "description": "Finds."}]}
        catalog, refusals = decode_catalog(json.dumps(body).encode())
        assert (len(catalog.tools), len(refusals)) == (kept, 1 - kept)


@pytest.mark.parametrize("reference", ["http://127.0.0.1/x", "file:///etc/passwd", "other.json"])
def test_a_schema_that_refers_outside_is_refused(reference):
    """Whoever reads it would fetch it."""
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": reference}]}}}
    tool = {"name": "x", "toolset": "t", "description": "X.", "input_schema": schema}
    _, (refusal,) = decode_catalog(json.dumps({"service": "t", "tools": [tool]}).encode())
    assert "$ref" in refusal.reason


@pytest.mark.parametrize("rest", ["{x}{y}", "/{x}" * 17, f"{{x}}{'a' * 129}{{y}}"])
def test_a_template_that_takes_long_to_match_is_refused(rest):
    """Of two adjacent variables nobody can say where the one ends. The others stay."""
    allowed = "/{x}" * 16 + "a" * 500
    templates = [
        {"uri_template": f"a://{one}", "name": "n", "toolset": "t"} for one in (rest, allowed)
    ]
    body = {"service": "t", "resource_templates": templates}
    catalog, (refusal,) = decode_catalog(json.dumps(body).encode())
    assert "variables" in refusal.reason
    assert len(catalog.resource_templates) == 1


TOOL_LINES = [encode(TOOL), encode(replace(TOOL, name="second"))]
NAME = part_hash("tools", TOOL_LINES)


def packed(*parts: CatalogPart) -> bytes:
    return encode(Catalog(service="words", parts=parts))


def test_packed_parts_are_read_like_others():
    """A malformed descriptor in one is left out, and the others stay."""
    lines = [*TOOL_LINES, b"{}", b"no JSON"]
    name = part_hash("tools", lines)
    catalog, refusals = decode_catalog(
        packed(
            CatalogPart(hash=name, packed=pack("tools", lines)),
            CatalogPart(hash="plain", prompts=CATALOG.prompts),
        )
    )
    assert catalog.parts == (
        CatalogPart(hash=name, tools=(TOOL, replace(TOOL, name="second"))),
        CatalogPart(hash="plain", prompts=CATALOG.prompts),
    )
    assert [refusal.kind for refusal in refusals] == ["tool", "tool"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("0" * 32, pack("tools", TOOL_LINES), "has another hash"),
        (NAME, pack("tools", TOOL_LINES[:1]), "has another hash"),
        (NAME, b"no zlib", "cannot be decompressed"),
        (NAME, pack("tools", TOOL_LINES)[:-9], "cannot be decompressed"),
        (part_hash("hash", [b"x"]), pack("hash", [b"x"]), "has an unknown kind"),
    ],
)
def test_packed_part_that_does_not_fit_is_refused_alone(name, content, reason):
    """With its hash; the others stay."""
    good = CatalogPart(hash=NAME, packed=pack("tools", TOOL_LINES))
    catalog, (refusal,) = decode_catalog(packed(CatalogPart(hash=name, packed=content), good))
    assert [part.hash for part in catalog.parts] == [NAME]
    assert (refusal.kind, refusal.name) == ("part", name)
    assert reason in refusal.reason


def test_packed_parts_together_are_limited(monkeypatch):
    """A small message must not fill the memory."""
    monkeypatch.setattr(catalog, "_MAX_UNPACKED_BYTES", 2_000_000)
    lines = [b" " * 1_500_000]
    part = CatalogPart(hash=part_hash("tools", lines), packed=pack("tools", lines))
    assert len(part.packed) < 10_000
    _, refusals = decode_catalog(packed(part, part, part))
    assert [r.reason for r in refusals if r.kind == "part"] == [
        f"Part {part.hash} of the catalogue is too large. Send it again."
    ] * 2
