"""The skills of a server as resources of the bus."""

from __future__ import annotations

from typing import Any

import pytest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.definitions.describe import ListedContents, describe_contents
from searchbus_attach.definitions.extensions import MAX_BYTES

ROOT = "skill://acme/refunds"
DIGEST = f"sha256:{'a' * 64}"


def file(uri: str = f"{ROOT}/SKILL.md", **more: Any) -> dict[str, Any]:
    return {"uri": uri, "digest": DIGEST, "size": 3, **more}


def entry(**more: Any) -> dict[str, Any]:
    frontmatter = {"name": "refunds", "description": "Pay back.", "license": "MIT"}
    return {
        "uri": f"{ROOT}/SKILL.md", "frontmatter": frontmatter,
        "resources": [file(), file(f"{ROOT}/a.md")], **more,
    }  # fmt: skip


def described(*skills: Any, resources: Any = ()):
    server = parse_server("far", {"url": "https://far.example/mcp"})
    listed = ListedContents(resources=list(resources), skills=list(skills))
    return describe_contents(server, listed)


def test_a_skill_is_a_resource_with_its_entry():
    """Its own URIs are wrapped, its digests stay; a listed SKILL.md keeps what the server says."""
    listed = {"uri": f"{ROOT}/SKILL.md", "name": "The listed one"}
    for resources, name in (((), "refunds"), ((listed,), "The listed one")):
        found = described(entry(), resources=resources)
        (resource,) = found.resources
        assert (resource.name, resource.untrusted) == (name, True)
        assert resource.uri == f"searchbus://attach/far/{ROOT}/SKILL.md"
        assert resource.skill.frontmatter == entry()["frontmatter"]
        uris = [f.uri for f in resource.skill.files]
        assert uris == [f"searchbus://attach/far/{ROOT}/{n}" for n in ("SKILL.md", "a.md")]
        assert not found.refused


def test_a_dynamic_skill_has_no_files():
    """Its content is made at each read."""
    (resource,) = described(entry(resources="dynamic")).resources
    assert resource.skill.files == ()


@pytest.mark.parametrize(
    "wrong",
    [
        3,
        {},
        entry(uri="skill://acme/refunds/README.md"),
        entry(uri="skill://acme/other/SKILL.md"),
        entry(frontmatter={"name": "refunds"}),
        entry(frontmatter={"name": "refunds", "description": " "}),
        entry(frontmatter={"name": "refunds", "description": "Pay\u202e back."}),
        entry(frontmatter={"name": "refunds", "description": "d", "notes": ["x" * 65_536]}),
        entry(resources=None),
        entry(resources=[]),
        entry(resources=[file(), file()]),
        entry(resources=[file(), file("skill://acme/refunds-other/x.md")]),
        entry(resources=[file(digest="md5:1")]),
        entry(resources=[file(size=-1)]),
        entry(resources=[file(size=MAX_BYTES + 1)]),
        entry(resources=[file(), *(file(f"{ROOT}/{n}") for n in range(512))]),
    ],
)
def test_an_entry_that_is_not_valid_is_refused_alone(wrong):
    """The others of its server stay, and the operator sees why."""
    good = "skill://x/fine/SKILL.md"
    fine = entry(uri=good, frontmatter={"name": "fine", "description": "d"}, resources=[file(good)])
    found = described(wrong, fine)
    assert [r.name for r in found.resources] == ["fine"]
    assert len(found.refused) == 1
