"""What commands print."""

from __future__ import annotations

import pytest
import typer

from searchbus_cli.output import fail


@pytest.mark.parametrize(("arguments", "code"), [((), 1), ((2,), 2)])
def test_fail_prints_to_standard_error_and_returns_the_exit(capsys, arguments, code):
    """Brackets in the message are no markup, and long lines are not broken."""
    message = "[red] is no color here " + "x" * 200
    error = fail(message, *arguments)
    assert isinstance(error, typer.Exit)
    assert code == error.exit_code
    assert ("", f"error: {message}\n") == tuple(capsys.readouterr())
