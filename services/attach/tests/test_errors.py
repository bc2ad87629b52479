"""A server's fault is a sentence for the operator."""

from __future__ import annotations

from searchbus_attach.errors import ServerError


def test_a_fault_is_no_error_of_the_connection():
    """Nothing may take it for a lost connection and repeat a call."""
    assert not isinstance(ServerError("x"), OSError | ValueError)
