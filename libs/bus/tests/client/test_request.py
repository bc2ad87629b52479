"""What a request carries."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus import Request
from searchbus_bus.client.request import DEFAULT_TIMEOUT_S, Deadline
from searchbus_contracts import Fault, Ping, Pong


def test_defaults_are_those_of_an_idempotent_request_without_an_actor():
    """The budget is that of a request without headers."""
    request = Request("sb.v1.a.b", Ping(), Pong, service="a")
    assert request.timeout_s == DEFAULT_TIMEOUT_S
    assert (request.actor, request.on_event, request.idempotent) == (None, None, True)


def test_a_request_is_not_changed_but_replaced():
    """A fan-out gives each its own budget."""
    request = Request("sb.v1.a.b", Ping(), Pong, service="a")
    with pytest.raises(AttributeError):
        request.timeout_s = 1.0  # type: ignore[misc]
    assert msgspec.structs.replace(request, timeout_s=1.0).timeout_s == 1.0


def test_options_are_named():
    """Seven positional arguments would be mistaken for each other."""
    with pytest.raises(TypeError):
        Request("sb.v1.a.b", Ping(), Pong, "a")  # type: ignore[misc]


FAR_S = 1_000_000


def wall_ms(after_s: float) -> str:
    return str(int((time.time() + after_s) * 1000))


@pytest.mark.parametrize(
    ("timeout_ms", "deadline_in_s", "expected_s"),
    [
        (None, None, DEFAULT_TIMEOUT_S),
        (100_000, None, 100),
        (100_000, FAR_S, 100),
        (FAR_S * 1000, -100, -100),
        (None, FAR_S, DEFAULT_TIMEOUT_S),
        (0, None, 0),
    ],
)
def test_the_smaller_header_counts(timeout_ms, deadline_in_s, expected_s):
    """Without a header the default budget is one of the two."""
    headers = {}
    if timeout_ms is not None:
        headers["Timeout-Ms"] = str(timeout_ms)
    if deadline_in_s is not None:
        headers["Deadline-Ms"] = wall_ms(deadline_in_s)
    assert Deadline.from_headers(headers).remaining_s == pytest.approx(expected_s, abs=60)


def test_a_passed_deadline_has_negative_time_left_and_no_budget_on_the_wire():
    """A header never holds a negative number."""
    deadline = Deadline.after(-5)
    assert deadline.remaining_s < 0
    assert deadline.to_headers()["Timeout-Ms"] == "0"


def test_headers_carry_the_deadline_to_another_process():
    """Written and read, it is the same moment or earlier."""
    deadline = Deadline.after(FAR_S)
    received = Deadline.from_headers(deadline.to_headers())
    assert received.at_s <= deadline.at_s + 0.01
    assert received.at_s == pytest.approx(deadline.at_s, abs=60)


@pytest.mark.parametrize("name", ["Timeout-Ms", "Deadline-Ms"])
@pytest.mark.parametrize("value", ["", "-1", "1.5", "soon", "٣", "9" * 17, " 1", "1e3"])
def test_a_malformed_header_is_named(name, value):
    """The request is refused, not handled for ever."""
    with pytest.raises(Fault, match=name) as caught:
        Deadline.from_headers({name: value})
    assert caught.value.code == "invalid_argument"


@given(st.integers(0, 10**15))
def test_every_number_of_milliseconds_is_accepted(value):
    """Up to sixteen digits."""
    Deadline.from_headers({"Timeout-Ms": str(value), "Deadline-Ms": str(value)})
