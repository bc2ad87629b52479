"""What a request carries."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_bus import Request
from searchbus_bus.client.request import DEFAULT_TIMEOUT_S
from searchbus_contracts import Ping, Pong


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
