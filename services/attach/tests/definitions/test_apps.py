"""Views of a server's tools keep their meaning under the addresses that they have here."""

from __future__ import annotations

import pytest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.definitions.describe import ListedContents, describe, describe_contents
from searchbus_attach.definitions.replies import resource_of
from searchbus_attach.definitions.text import own_uri, wrapped_uri

SERVER = parse_server("far", {"url": "https://far.example/mcp"})
CSP = {"csp": {"connectDomains": ["https://api.example"]}, "prefersBorder": True}


def meta_of(meta):
    tool = {"name": "chart", "inputSchema": {"type": "object"}, "_meta": meta}
    (found,) = describe(SERVER, [tool]).descriptors
    return found.meta


def test_the_address_of_a_view_has_its_scheme_and_leads_back():
    """Hosts show no other scheme."""
    for uri in ("ui://charts/bar.html", "ui://a", "note:///1", "https://x.example/ui://y"):
        wrapped = wrapped_uri("far", uri)
        assert own_uri("far", wrapped) == uri
        assert own_uri("fa", wrapped) is None
        assert own_uri("farther", wrapped) is None
        assert wrapped.startswith("ui://far/") == uri.startswith("ui://")


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (
            {"ui": {"resourceUri": "ui://c/bar", "visibility": ["app", "other"]}, "x": 1},
            {"ui": {"resourceUri": "ui://far/c/bar", "visibility": ["app"]}},
        ),
        ({"ui/resourceUri": "ui://c/bar"}, {"ui": {"resourceUri": "ui://far/c/bar"}}),
        ({"ui": {"visibility": ["app"]}}, {"ui": {"visibility": ["app"]}}),
        ({"ui": {"resourceUri": "https://evil.example/"}}, None),
        ({"ui": {"resourceUri": "ui://a b"}}, None),
        ({"ui": {"resourceUri": "ui://" + "a" * 5000}}, None),
        ({"ui": {"resourceUri": 3}}, None),
        ({"ui": 3}, None),
        (3, None),
        (None, None),
    ],
)
def test_a_tool_keeps_what_names_its_view(meta, expected):
    """Nothing else of its `_meta`."""
    assert meta_of(meta) == expected


def test_a_view_keeps_what_its_sandbox_may_reach():
    """In the list and when it is read; unlisted ones can be read too."""
    views = [
        {"name": "bar", "uri": "ui://c/bar", "_meta": {"ui": CSP, "dev.searchbus/x": 1}},
        {"name": "note", "uri": "note:///1", "_meta": {"ui": CSP}},
    ]
    found = describe_contents(SERVER, ListedContents(resources=views))
    assert [(r.uri, r.meta) for r in found.resources] == [
        ("ui://far/c/bar", {"ui": CSP}),
        ("searchbus://attach/far/note:///1", None),
    ]
    assert "ui://far/{+uri}" in {t.uri_template for t in found.templates if not t.listed}
    raw = {"contents": [{"uri": "ui://c/bar", "text": "<p>", "_meta": {"ui": CSP}}]}
    (body,) = resource_of("far", raw).contents
    assert (body.uri, body.meta) == ("ui://far/c/bar", {"ui": CSP})
