"""Requests to the tool index have limits."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault, decode, encode
from searchbus_contracts.toolindex import FindReply, FindRequest, Found


def test_a_request_needs_a_query_only():
    """The first ten tools of every toolset."""
    request = decode(b'{"query": "weather"}', FindRequest)
    assert (request.kind, request.limit, request.offset, request.toolsets) == ("tool", 10, 0, ())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "file"}, "kind"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"offset": -1}, "offset"),
        ({"toolsets": ["a.b"]}, "toolsets"),
    ],
)
def test_a_request_outside_its_limits_names_the_field(change, field):
    """Before anything is embedded."""
    with pytest.raises(Fault, match=field):
        decode(encode({"query": "x", **change}), FindRequest)


def test_a_reply_survives_the_wire():
    """Matches keep their order and their scores."""
    found = tuple(
        Found(toolset="t", name=f"n{i}", score=1 / (i + 1), cosine=0.5, matched=("w",))
        for i in range(3)
    )
    reply = FindReply(generation="g", found=found, total=30)
    assert decode(encode(reply), FindReply) == reply
