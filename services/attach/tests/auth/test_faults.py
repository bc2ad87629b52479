"""Failures of signing in are failures of the server, for who does not look closer."""

from __future__ import annotations

from searchbus_attach.auth.faults import AuthFault, LoginRequired
from searchbus_attach.faults import ServerFault


def test_a_missing_sign_in_is_one_of_them():
    """From the special to the general."""
    assert LoginRequired.mro()[1:3] == [AuthFault, ServerFault]
