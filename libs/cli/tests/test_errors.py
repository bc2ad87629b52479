"""Why a stack cannot run."""

from __future__ import annotations

from searchbus_cli.errors import AlreadyRunning, StackError


def test_a_second_stack_is_a_stack_error():
    """Commands report both in the same way."""
    assert issubclass(AlreadyRunning, StackError)
    assert str(AlreadyRunning("in use")) == "in use"
