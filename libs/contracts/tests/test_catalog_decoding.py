"""A catalogue is read descriptor by descriptor; packed parts must fit their hashes."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from searchbus_contracts import (
    Catalog,
    CatalogPart,
    Fault,
    catalog,
    decode_catalog,
    encode,
)
from searchbus_contracts.catalog import pack, part_hash

from .test_catalog import CATALOG, TOOL


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


def test_a_template_with_adjacent_variables_is_refused():
    """Nobody can say where the one ends."""
    template = {"uri_template": "a://{x}{y}", "name": "n", "toolset": "t"}
    body = {"service": "t", "resource_templates": [template]}
    _, (refusal,) = decode_catalog(json.dumps(body).encode())
    assert "variables" in refusal.reason


LINES = [encode(TOOL), encode(replace(TOOL, name="second"))]
NAME = part_hash("tools", LINES)


def packed(*parts: CatalogPart) -> bytes:
    return encode(Catalog(service="words", parts=parts))


def test_packed_parts_are_read_like_others():
    """A malformed descriptor in one is left out, and the others stay."""
    lines = [*LINES, b"{}", b"no JSON"]
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
        ("0" * 32, pack("tools", LINES), "has another hash"),
        (NAME, pack("tools", LINES[:1]), "has another hash"),
        (NAME, b"no zlib", "cannot be decompressed"),
        (NAME, pack("tools", LINES)[:-9], "cannot be decompressed"),
        (part_hash("hash", [b"x"]), pack("hash", [b"x"]), "has an unknown kind"),
    ],
)
def test_packed_part_that_does_not_fit_is_refused_alone(name, content, reason):
    """With its hash; the others stay."""
    good = CatalogPart(hash=NAME, packed=pack("tools", LINES))
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
