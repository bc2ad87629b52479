"""What is asked of the authorization server for each type."""

from __future__ import annotations

import json

import pytest
from joserfc.jwk import ECKey

from searchbus_attach.auth.faults import AuthFault
from searchbus_attach.auth.grants import client_credentials, token_exchange
from searchbus_attach.auth.identity import Identity

from .authorization_server import EXCHANGE
from .conftest import declared

PEM = ECKey.generate_key("P-256").as_pem(private=True).decode()


async def test_client_credentials(protected, http):
    """For the server as resource, with the scopes that it asks for or the declared ones."""
    server = declared(protected, "client_credentials")
    found = await client_credentials(http, server, server.auth)
    assert protected.provider.issued[found.access_token].resource == protected.url
    other = declared(protected, "client_credentials", scopes=["a", "b"], resource="urn:x")
    await client_credentials(http, other, other.auth)
    first, second = protected.provider.forms
    assert (first["scope"], first["resource"]) == ("read", protected.url)
    assert (second["scope"], second["resource"]) == ("a b", "urn:x")


async def test_token_exchange_states_the_caller(protected, http):
    """By a statement that searchbus signed, not by the caller's token."""
    identity = Identity(PEM, "searchbus")
    protected.provider.keys = json.loads(identity.public_keys())
    server = declared(protected, "token_exchange", audience="far")
    found = await token_exchange(http, server, server.auth, identity, "ann")
    assert protected.provider.issued[found.access_token].subject == "ann"
    (form,) = protected.provider.forms
    assert (form["grant_type"], form["audience"]) == (EXCHANGE, "far")
    assert form["subject_token_type"].endswith(":jwt")


async def test_token_exchange_needs_a_key(protected, http):
    """And says which setting."""
    server = declared(protected, "token_exchange")
    with pytest.raises(AuthFault, match="SEARCHBUS_ATTACH_IDENTITY_KEY"):
        await token_exchange(http, server, server.auth, None, "ann")
