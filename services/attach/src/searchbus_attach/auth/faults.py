"""Failures of signing in. Their messages have no secrets and no text of others."""

from __future__ import annotations

from ..faults import ServerFault

__all__ = ["AuthFault", "LoginRequired"]


class AuthFault(ServerFault):
    """There is no token now; the message says why and what to do."""


class LoginRequired(AuthFault):
    """There is no token until a person signs in."""
