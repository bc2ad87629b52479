"""Callers and refusals."""

from __future__ import annotations

from searchbus_edge.auth.identity import ANONYMOUS, Unauthenticated


def test_anonymous_caller_holds_every_role():
    """Without access control nothing is hidden."""
    assert ANONYMOUS.holds(("ANY", "OTHER"))


def test_refusal_has_the_code_of_rfc_6750():
    """`invalid_token`, unless there was no credential."""
    assert Unauthenticated("x").code == "invalid_token"
    assert Unauthenticated("x", code="").code == ""
