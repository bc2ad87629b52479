"""The head of a request: headers, and the rules of the transport."""

from __future__ import annotations

import pytest

from searchbus_edge.http import head as module
from searchbus_edge.http.body import check_media_types
from searchbus_edge.http.faults import HttpRefusedError
from searchbus_edge.http.head import parse_head
from searchbus_edge.tools.admission import AddressRules


def head(**fields: str):
    return parse_head([(n.replace("_", "-").encode(), v.encode()) for n, v in fields.items()])


def status_of(check, *given) -> int:
    """The status with which a check refuses; 200 where it does not."""
    try:
        check(*given)
    except HttpRefusedError as refusal:
        return refusal.status
    return 200


def test_values_are_stripped_and_missing_ones_empty():
    """httptools keeps trailing spaces; a missing revision is not an empty one."""
    found = head(mcp_protocol_version="2025-06-18 ", authorization=" Bearer x ", x_other="1")
    assert (found.revision, found.authorization) == ("2025-06-18", "Bearer x")
    assert (found.host, found.accept, found.method, found.repeated) == ("", "", None, ())


def test_repeated_headers_of_caller_and_routing_are_noticed():
    """Of others the first value counts."""
    twice = [(b"mcp-name", b"a"), (b"mcp-name", b"b"), (b"host", b"x"), (b"host", b"y")]
    found = parse_head(twice)
    assert (found.repeated, found.name, found.host) == (("name",), "a", "x")
    found = parse_head([(b"authorization", b"a"), (b"authorization", b"b"), *twice])
    assert found.repeated == ("authorization", "name")


def test_lines_of_a_list_are_one_list():
    """Proxies and clients may send one header in several lines (RFC 9110, 5.3)."""
    lines = [("accept", " text/html"), ("accept", "application/json "), ("host", "x"),
             ("accept", "text/event-stream"), ("tracestate", "a=1"), ("tracestate", "b=2"),
             ("content-encoding", "identity"), ("content-encoding", "gzip")]  # fmt: skip
    found = parse_head([(name.encode(), value.encode()) for name, value in lines])
    assert found.accept == "text/html, application/json, text/event-stream"
    assert (found.accepts_json, found.accepts_events) == (True, True)
    assert (found.tracestate, found.content_encoding) == ("a=1, b=2", "identity, gzip")


@pytest.mark.parametrize(
    ("accept", "json", "events"),
    [
        ("application/json, text/event-stream", True, True),
        ("application/json", True, False),
        ("text/event-stream;q=0.9", False, True),
        ("*/*", True, True),
        ("application/*, text/html", True, False),
        ("Text/*", False, True),
        ("text/html", False, False),
        ("", False, False),
    ],
)
def test_accepted_forms(accept, json, events):
    """With wildcards and parameters."""
    found = head(accept=accept, content_type="application/json")
    assert (found.accepts_json, found.accepts_events) == (json, events)
    assert status_of(check_media_types, found) == (200 if json or events else 406)


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("", 400),
        ("text/plain", 400),
        ("application/jsonx", 415),
    ],
)
def test_content_type_must_be_json(content_type, status):
    """As in the SDK's transport."""
    assert status_of(check_media_types, head(accept="*/*", content_type=content_type)) == status


def test_encoded_body_is_refused_by_name():
    """It would be read as plain text, and be called no JSON."""
    given = {"accept": "*/*", "content_type": "application/json"}
    with pytest.raises(HttpRefusedError, match="'gzip'") as raised:
        check_media_types(head(**given, content_encoding="gzip"))
    assert raised.value.status == 415
    for encoding in ("identity", "Identity", "", "identity, IDENTITY"):
        assert status_of(check_media_types, head(**given, content_encoding=encoding)) == 200
    assert status_of(check_media_types, head(**given, content_encoding="identity, gzip")) == 415


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost", "", 200),
        ("localhost:81", "http://localhost:5", 200),
        ("own.example", "", 200),
        ("own.example:81", "", 421),
        ("evil.example", "", 421),
        ("localhost.evil.example", "", 421),
        ("", "", 421),
        ("localhost", "http://evil.example", 403),
        ("localhost", "http://localhost.evil.example", 403),
    ],
)
def test_addresses_are_checked_against_rebinding(host, origin, status):
    """Exact values; `name:*` allows any port."""
    rules = AddressRules(["localhost", "localhost:*", "own.example"], ["http://localhost:*"])
    assert status_of(rules.check, head(host=host, origin=origin)) == status


def test_long_accept_headers_are_not_kept():
    """Each could be as long as a head, and a thousand of them are kept."""
    before = module._types.cache_info().currsize
    text = "application/json," + "a" * 1000
    assert parse_head([(b"accept", text.encode())]).accepts_json
    assert module._types.cache_info().currsize == before
