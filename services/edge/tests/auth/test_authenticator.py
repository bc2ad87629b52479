"""Who a request comes from, and what a refusal says."""

from __future__ import annotations

import pytest

from searchbus_contracts import Actor
from searchbus_edge.auth.authenticator import Authenticator, metadata
from searchbus_edge.auth.identity import Identity, UnauthenticatedError

URL = "https://x.example"
ALICE = Actor(subject="alice", roles=())


class Tokens:
    """Accepts every token and records the audiences."""

    def __init__(self):
        self.audiences = ()

    async def verify(self, token, audiences):
        self.audiences = tuple(audiences)
        return Identity(ALICE, 0.0)


class Keys:
    def verify(self, key):
        if key != "good":
            raise UnauthenticatedError("unknown")
        return Identity(ALICE, 0.0)


async def test_without_credentials_to_check_everybody_is_the_default_caller():
    """Whatever the header says."""
    authenticator = Authenticator(default_actor=ALICE)
    assert authenticator.open
    assert await authenticator.identify("Bearer x", "/mcp") == ALICE


async def test_audiences_are_the_endpoint_the_edge_and_the_settings():
    """A token for the whole edge is good for each endpoint."""
    tokens = Tokens()
    authenticator = Authenticator(tokens=tokens, resource_url=URL + "/", audiences=("own",))
    assert not authenticator.open
    await authenticator.identify("bEaReR t", "/mcp/web")
    assert tokens.audiences == (f"{URL}/mcp/web", URL, f"{URL}/", "own")


@pytest.mark.parametrize("header", ["Basic x", "Bearer", "Bearer ", "Bearer a b", "\xff x"])
async def test_other_credentials_are_refused(header):
    """One bearer token and nothing else."""
    with pytest.raises(UnauthenticatedError) as caught:
        await Authenticator(keys=Keys()).identify(header, "/mcp")
    assert caught.value.code == "invalid_token"


async def test_missing_credential_has_no_error_code():
    """RFC 6750, 3.1: the client did not know that one is needed."""
    authenticator = Authenticator(keys=Keys(), resource_url=URL)
    with pytest.raises(UnauthenticatedError) as caught:
        await authenticator.identify("", "/mcp")
    assert authenticator.challenge("/mcp", caught.value) == (
        b'Bearer resource_metadata="https://x.example/.well-known/oauth-protected-resource/mcp"'
    )


def test_challenges_name_error_scope_and_metadata():
    """Of a bad token, and of a missing role."""
    authenticator = Authenticator(keys=Keys(), resource_url=URL)
    refused = authenticator.challenge("/mcp", UnauthenticatedError("Why.")).decode()
    assert refused.startswith('Bearer error="invalid_token", error_description="Why.", resource_')
    assert 'scope="PAYER"' in authenticator.insufficient("/mcp", "PAYER").decode()


def test_role_cannot_end_its_header():
    """A worker declares it."""
    role = 'A"\r\nSet-Cookie: b=c\\ é'
    challenge = Authenticator(resource_url=URL).insufficient("/mcp", role).decode()
    assert 'scope="A___Set-Cookie:_b=c___"' in challenge
    assert "\n" not in challenge


def test_metadata_keeps_addresses_exactly():
    """A slash more would be another issuer, another resource."""
    found = metadata(Authenticator(resource_url=URL), "", "https://idp")
    assert found == {
        "resource": URL,
        "authorization_servers": ["https://idp"],
        "bearer_methods_supported": ["header"],
        "resource_name": "searchbus at x.example",
    }
