"""A server's prompts and resources as descriptors."""

from __future__ import annotations

import pytest

from searchbus_attach.definitions.describe_contents import (
    MAX_BYTES,
    MAX_ITEMS,
    content_annotations,
    describe_contents,
)
from searchbus_attach.upstream.session import ListedContents
from searchbus_contracts import encode

from ..conftest import plain


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
    """With one for all that the server does not list, for reading only."""
    found = described(
        resources=[{"uri": "a:b", "name": "b", "mimeType": "text/plain", "size": 3}],
        templates=[{"uriTemplate": "a:{id}", "name": "by id"}],
        completes=True,
    )
    (resource,), (template, unlisted) = found.resources, found.templates
    assert resource.uri == "searchbus://attach/plain/a:b"
    assert (resource.mime_type, resource.size_bytes) == ("text/plain", 3)
    assert template.uri_template == "searchbus://attach/plain/a:{id}"
    assert (template.listed, template.completes) == (True, True)
    assert unlisted.uri_template == "searchbus://attach/plain/{+uri}"
    assert not unlisted.listed
    assert all(item.untrusted for item in (resource, template, unlisted))


@pytest.mark.parametrize(
    ("kind", "item", "reason"),
    [
        ("prompts", 3, "not an object"),
        ("prompts", {"name": ""}, "no usable name"),
        ("prompts", {"name": "p", "arguments": [{"name": "a b"}]}, "token"),
        ("prompts", {"name": "p", "arguments": [{}]}, "has no name"),
        ("prompts", {"name": "p", "arguments": {}}, ""),
        ("resources", {"name": "r"}, "no usable URI"),
        ("resources", {"name": "r", "uri": "a:\u202eb"}, "no usable URI"),
        ("resources", {"name": "r", "uri": "a b"}, "a space"),
        ("resources", {"name": "r", "uri": "a:" + "b" * 3000}, "2048"),
        ("templates", {"name": "t", "uriTemplate": "a:{b}{c}"}, "two variables"),
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
