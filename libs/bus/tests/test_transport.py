"""The messages of a transport, and that both transports have its interface."""

from __future__ import annotations

import inspect

import pytest

from searchbus_bus.memory import _MemoryTransport
from searchbus_bus.nats.transport import NatsTransport
from searchbus_bus.transport import Message, Transport


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Message("s", b"", headers={"Status": "503"}), True),
        (Message("s", b"data", headers={"Status": "503"}), False),
        (Message("s", b"", headers={"Status": "100"}), False),
        (Message("s", b""), False),
    ],
)
def test_an_empty_503_says_that_there_is_no_subscriber(message, expected):
    """A body makes it a reply of a worker."""
    assert message.no_responders is expected


@pytest.mark.parametrize("implementation", [NatsTransport, _MemoryTransport])
def test_both_transports_have_the_same_methods(implementation):
    """With the same parameters."""
    names = [n for n, value in vars(Transport).items() if not n.startswith("_") and value]
    assert "publish" in names
    for name in names:
        expected, found = getattr(Transport, name), getattr(implementation, name)
        if isinstance(expected, property):
            assert isinstance(found, property)
            continue
        assert list(inspect.signature(found).parameters) == list(
            inspect.signature(expected).parameters
        )
