"""What is asked of the authorization server for each type."""

from __future__ import annotations

import json

import pytest
from joserfc.jwk import ECKey

from searchbus_attach.auth.credentials import TokenRequest, client_credentials, token_exchange
from searchbus_attach.auth.keys import ServiceIdentity
from searchbus_attach.errors import AuthError

from .authorization_server import EXCHANGE
from .conftest import declared

PEM = ECKey.generate_key("P-256").as_pem(private=True).decode()


@pytest.fixture
def asked(http):
    """What a method is asked for the caller ann."""
    return lambda server, identity=None: TokenRequest(server, "ann", "", http, identity, None)


async def test_client_credentials(protected, asked):
    """For the server as resource, with the scopes that it asks for or the declared ones."""
    server = declared(protected, "client_credentials")
    found = await client_credentials(asked(server))
    assert protected.provider.issued[found.access_token].resource == protected.url
    other = declared(protected, "client_credentials", scopes=["a", "b"], resource="urn:x")
    await client_credentials(asked(other))
    first, second = protected.provider.forms
    assert (first["scope"], first["resource"]) == ("read", protected.url)
    assert (second["scope"], second["resource"]) == ("a b", "urn:x")


async def test_token_exchange_states_the_caller(protected, asked):
    """By a statement that searchbus signed, not by the caller's token."""
    identity = ServiceIdentity(PEM, "searchbus")
    protected.provider.keys = json.loads(identity.public_keys())
    server = declared(protected, "token_exchange", audience="far")
    found = await token_exchange(asked(server, identity))
    assert protected.provider.issued[found.access_token].subject == "ann"
    (form,) = protected.provider.forms
    assert (form["grant_type"], form["audience"]) == (EXCHANGE, "far")
    assert form["subject_token_type"].endswith(":jwt")


async def test_token_exchange_needs_a_key(protected, asked):
    """And says which setting."""
    server = declared(protected, "token_exchange")
    with pytest.raises(AuthError, match="SEARCHBUS_ATTACH_IDENTITY_KEY"):
        await token_exchange(asked(server))
