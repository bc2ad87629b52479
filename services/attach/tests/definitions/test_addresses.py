"""Addresses of servers' resources."""

from __future__ import annotations

import re

import pytest

from searchbus_attach.definitions.addresses import own_uri, wrapped_link, wrapped_uri
from searchbus_contracts.resources import template_pattern

URIS = ["demo://resource/1", "file:///a/b%20c?d=e#f", "mem:x", "https://example.org/"]


@pytest.mark.parametrize("uri", URIS)
def test_a_uri_comes_back_as_it_was(uri):
    """Also one with a query, and one of the web."""
    assert own_uri("far", wrapped_uri("far", uri)) == uri


@pytest.mark.parametrize(
    "uri", ["demo://resource/1", "searchbus://attach/near/a:b", "searchbus://attach/far/", ""]
)
def test_what_is_not_of_the_server_is_none(uri):
    """Nor is an empty one."""
    assert own_uri("far", uri) is None


def test_an_expanded_template_is_the_address_of_what_the_own_template_gives():
    """So a client can expand either."""
    template = "repo://{owner}/{name}/contents{/path*}"
    pattern = template_pattern(wrapped_uri("git", template))
    expanded = "repo://ada/engine/contents/a/b.txt"
    assert pattern.fullmatch(wrapped_uri("git", expanded))
    assert re.fullmatch(template_pattern(template), expanded)


@pytest.mark.parametrize("uri", URIS)
def test_no_address_is_one_of_a_document(uri):
    """`searchbus://<collection>/<id>`, of the service retrieval."""
    assert not template_pattern("searchbus://{collection}/{id}").fullmatch(wrapped_uri("far", uri))


def test_a_link_to_the_web_stays():
    """Clients fetch it themselves. What is not a URI is wrapped like any other."""
    assert wrapped_link("far", "https://example.org/x") == "https://example.org/x"
    assert wrapped_link("far", "note:///1") == "searchbus://attach/far/note:///1"
    assert wrapped_link("far", "http://[x") == "searchbus://attach/far/http://[x"
