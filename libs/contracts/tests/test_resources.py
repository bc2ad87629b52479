"""Requests for resources have limits."""

from __future__ import annotations

import pytest

from searchbus_contracts import (
    Fault,
    ResourceListRequest,
    ResourceReadRequest,
    ResourceSearchRequest,
    decode,
    encode,
)


def test_defaults_are_a_page_of_fifty():
    """An empty request is valid where nothing is required."""
    assert decode(b"{}", ResourceListRequest) == ResourceListRequest(cursor=None, limit=50)


@pytest.mark.parametrize(
    ("kind", "message", "field"),
    [
        (ResourceListRequest, {"limit": 0}, "limit"),
        (ResourceListRequest, {"limit": 201}, "limit"),
        (ResourceListRequest, {"cursor": "x" * 1025}, "cursor"),
        (ResourceReadRequest, {"uri": ""}, "uri"),
        (ResourceReadRequest, {"uri": "x" * 2049}, "uri"),
        (ResourceReadRequest, {}, "uri"),
        (ResourceSearchRequest, {"query": ""}, "query"),
        (ResourceSearchRequest, {"query": "x" * 2001}, "query"),
        (ResourceSearchRequest, {"query": "x", "limit": 51}, "limit"),
    ],
)
def test_a_request_outside_its_limits_names_the_field(kind, message, field):
    """Before any worker handles it."""
    with pytest.raises(Fault, match=field):
        decode(encode(message), kind)
