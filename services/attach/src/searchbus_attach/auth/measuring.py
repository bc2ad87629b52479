"""Metrics of signing in, labelled with the server's name in the file."""

from __future__ import annotations

from ..metrics import meter

__all__ = ["count_login", "count_token"]

_tokens = meter.create_counter(
    "searchbus.attach.tokens",
    description="Requests for tokens of attached servers, by type of auth and outcome.",
)
_logins = meter.create_counter(
    "searchbus.attach.logins", description="Sign-ins to attached servers, by outcome."
)


def count_token(server: str, kind: str, outcome: str) -> None:
    """Count a request for a token: `ok`, `login_required` or `failed`."""
    _tokens.add(1, {"server": server, "type": kind, "outcome": outcome})


def count_login(server: str, outcome: str) -> None:
    """Count a sign-in: `ok` or `failed`."""
    _logins.add(1, {"server": server, "outcome": outcome})
