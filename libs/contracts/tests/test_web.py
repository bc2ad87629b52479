"""Requests for web searches have limits."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault, decode, encode
from searchbus_contracts.web import WebResult, WebSearchReply, WebSearchRequest


def test_a_request_needs_a_query_only():
    """Ten results of any region and any time."""
    request = decode(b'{"query": "weather"}', WebSearchRequest)
    assert (request.limit, request.region, request.time, request.hops) == (10, "wt-wt", "", 0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"limit": 31}, "limit"),
        ({"region": "germany"}, "region"),
        ({"time": "h"}, "time"),
        ({"safe": "on"}, "safe"),
        ({"hops": 65}, "hops"),
    ],
)
def test_a_request_outside_its_limits_names_the_field(change, field):
    """Before a provider is called."""
    with pytest.raises(Fault, match=field):
        decode(encode({"query": "x", **change}), WebSearchRequest)


def test_an_empty_reply_is_a_reply():
    """The provider found nothing, which is no failure."""
    reply = WebSearchReply(results=(), provider="p", fetched_at_ms=1)
    assert decode(encode(reply), WebSearchReply) == reply


def test_a_reply_survives_the_wire():
    """With a note on what is missing."""
    reply = WebSearchReply(
        results=(WebResult(title="t", url="https://example.org", published_at="2024-01-31"),),
        provider="p", fetched_at_ms=1, note="The cache is old.", stale=True,
    )  # fmt: skip
    assert decode(encode(reply), WebSearchReply) == reply
