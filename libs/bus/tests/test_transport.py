"""The messages of a transport; mypy sees that both transports have its interface."""

from __future__ import annotations

import pytest

from searchbus_bus.transport import Message


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
