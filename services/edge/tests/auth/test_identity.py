"""Callers and refusals."""

from __future__ import annotations

from itertools import islice

import pytest

from searchbus_contracts import Actor
from searchbus_edge.auth.identity import ANONYMOUS, UnauthenticatedError, roles_of
from searchbus_edge.auth.tokens import MAX_TOKEN_CHARS


def test_anonymous_caller_holds_every_role():
    """Without access control nothing is hidden."""
    assert ANONYMOUS.holds(("ANY", "OTHER"))


def test_refusal_has_the_code_of_rfc_6750():
    """`invalid_token`, unless there was no credential."""
    assert UnauthenticatedError("x").code == "invalid_token"
    assert UnauthenticatedError("x", code="").code == ""


@pytest.mark.parametrize(
    ("claims", "paths", "roles"),
    [
        ({"roles": ["B", "A", "A"]}, None, ("A", "B")),
        ({"realm_access": {"roles": ["ROLE_A"]}}, None, ("A",)),
        ({"resource_access": {"x": {"roles": ["A"]}, "y": {"roles": ["B"]}}}, None, ()),
        (
            {"resource_access": {"x": {"roles": ["A"]}, "y": {"roles": ["B"]}}},
            ("resource_access.x.roles",),
            ("A",),
        ),
        ({"cognito:groups": ["A"]}, None, ("A",)),
        ({"scope": "A B"}, ("scope",), ("A", "B")),
        ({"https://x.example/roles": ["A"]}, ('"https://x.example/roles"',), ("A",)),
        ({"roles": ["ROLE_ROLE_A"]}, None, ("ROLE_ROLE_A",)),
        ({"roles": ["*", "A"]}, None, ("A",)),
        ({"roles": [1, None, "", {}, "A"]}, None, ("A",)),
        ({"roles": {"A": True}, "groups": 5, "realm_access": "x"}, None, ()),
        ({}, None, ()),
    ],
)
def test_roles_of_claims(claims, paths, roles):
    """Sorted and unique; `*` and what is not a role are left out."""
    found = roles_of(claims) if paths is None else roles_of(claims, paths)
    assert found == roles


def test_number_of_roles_is_limited():
    """A token cannot fill the memory."""
    assert len(roles_of({"roles": [str(number) for number in range(1000)]})) == 500


def test_what_the_longest_token_says_fits_into_the_header_of_the_bus():
    """Its claims are read from 16,384 characters of base64; each character may become six."""
    characters = iter("\x7f" * (MAX_TOKEN_CHARS * 3 // 4))
    names = ["".join(islice(characters, 24)) + str(number) for number in range(500)]
    names[0] += "é" + "".join(characters)
    actor = Actor(subject="\x7f" * 256, roles=roles_of({"roles": names}), endpoint="e" * 64)
    assert Actor.from_header(actor.to_header()) == actor
