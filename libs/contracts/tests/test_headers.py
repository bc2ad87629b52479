"""Headers: roles are compared exactly, the actor is ASCII, the parts have limits."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts import Actor, Cancel, Fault, Parts, Ping, Pong, decode, encode, headers
from searchbus_contracts.headers import MAX_ACTOR_CHARS, bare_role


@pytest.mark.parametrize(
    ("roles", "required", "holds"),
    [
        (("A", "B"), ("A",), True),
        (("A", "B"), ("A", "B"), True),
        (("A",), ("A", "B"), False),
        (("a",), ("A",), False),
        ((), (), True),
        (("A",), (), True),
        (("*",), ("A", "B"), True),
        (("ROLE_A",), ("A",), True),
        (("A",), ("ROLE_A",), True),
        (("ROLE_ROLE_A",), ("A",), False),
        (("A*",), ("AB",), False),
        (("A",), ("*",), False),
    ],
)
def test_an_actor_needs_every_required_role(roles, required, holds):
    """Compared exactly, apart from one prefix ROLE_ on either side."""
    assert Actor(roles=roles).holds(required) is holds


@pytest.mark.parametrize(
    ("roles", "missing"), [((), "ROLE_A"), (("A",), "B"), (("A", "ROLE_B"), None), (("*",), None)]
)
def test_first_missing_role_is_named_as_it_was_declared(roles, missing):
    """With its prefix, so that it can be granted."""
    assert Actor(roles=roles).missing(("ROLE_A", "B")) == missing


def test_one_prefix_is_removed_from_a_role():
    """Only the first, and only as a prefix."""
    assert [bare_role(r) for r in ("ROLE_A", "ROLE_ROLE_A", "A_ROLE_", "role_A")] == [
        "A", "ROLE_A", "A_ROLE_", "role_A",
    ]  # fmt: skip


@given(st.text(max_size=20), st.lists(st.text(max_size=10), max_size=4))
def test_the_actor_header_is_one_line_of_ascii(subject, roles):
    """NATS headers have no line breaks, and clients differ on UTF-8."""
    actor = Actor(subject=subject, roles=tuple(roles))
    header = actor.to_header()
    assert header.isascii()
    assert "\n" not in header
    assert "\r" not in header
    if not any("\ud800" <= c <= "\udfff" for c in subject + "".join(roles)):
        assert Actor.from_header(header) == actor


def test_an_actor_header_has_a_limit_and_is_not_kept():
    """A peer on the bus sends any number of them, each as large as a message may be."""
    tracemalloc.start()
    for number in range(60):
        header = Actor(subject=f"{number}-{'x' * 50_000}").to_header()
        assert Actor.from_header(header).subject.startswith(f"{number}-")
        with pytest.raises(Fault, match="Give the caller fewer roles"):
            Actor.from_header(f"{header[:-2]}{'x' * MAX_ACTOR_CHARS}{header[-2:]}")
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < 1_000_000


def test_an_actor_without_a_name_is_anonymous_and_has_no_roles():
    """The default of a request without the header."""
    assert (Actor().subject, Actor().roles) == ("anonymous", ())


@pytest.mark.parametrize("value", ["", "{", "[]", '{"subject": 1}', '{"roles": "A"}', "\udcff"])
def test_a_malformed_actor_header_is_a_fault(value):
    """Never another exception."""
    with pytest.raises(Fault) as caught:
        Actor.from_header(value)
    assert caught.value.code == "invalid_argument"


@pytest.mark.parametrize(
    "change", [{"count": 0}, {"count": 4097}, {"size_bytes": 0}, {"sha256": "ab"}]
)
def test_parts_have_limits(change):
    """A worker allocates nothing for a header outside of them."""
    parts = {"subject": "in.part", "count": 1, "size_bytes": 1, "sha256": "0" * 64}
    assert decode(encode(parts), Parts).count == 1
    with pytest.raises(Fault, match=next(iter(change))):
        decode(encode(parts | change), Parts)


def test_names_of_trace_headers_are_lower_case():
    """OpenTelemetry reads only these; NATS compares header names exactly."""
    assert (headers.TRACEPARENT, headers.TRACESTATE) == ("traceparent", "tracestate")


def test_messages_survive_the_wire():
    """Each decodes to what was encoded."""
    for message in (Cancel(req_id="a" * 64), Ping(), Pong(instance="x", in_flight=3)):
        assert decode(encode(message), type(message)) == message


@pytest.mark.parametrize("req_id", ["", "a" * 65])
def test_a_request_id_has_1_to_64_characters(req_id):
    """Otherwise the cancellation is refused."""
    with pytest.raises(Fault, match="req_id"):
        decode(encode({"req_id": req_id}), Cancel)
