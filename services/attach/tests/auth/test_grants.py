"""What is asked of the authorization server for each type."""

from __future__ import annotations

import json

import pytest
from joserfc.jwk import ECKey

from searchbus_attach.auth.credentials import Credentials
from searchbus_attach.auth.keys import ServiceIdentity
from searchbus_attach.errors import AuthError

from .authorization_server import EXCHANGE
from .conftest import declared

PEM = ECKey.generate_key("P-256").as_pem(private=True).decode()


@pytest.fixture
def token_for(http):
    """What the caller ann is signed in with."""

    async def ask(server, identity=None):
        return await Credentials(http, identity=identity).token_for(server, "ann")("")

    return ask


async def test_client_credentials(protected, token_for):
    """For the server as resource, with the scopes that it asks for or the declared ones."""
    server = declared(protected, "client_credentials")
    token = await token_for(server)
    assert protected.provider.issued[token].resource == protected.url
    other = declared(protected, "client_credentials", scopes=["a", "b"], resource="urn:x")
    await token_for(other)
    first, second = protected.provider.forms
    assert (first["scope"], first["resource"]) == ("read", protected.url)
    assert (second["scope"], second["resource"]) == ("a b", "urn:x")


async def test_token_exchange_states_the_caller(protected, token_for):
    """By a statement that searchbus signed, not by the caller's token."""
    identity = ServiceIdentity(PEM, "searchbus")
    protected.provider.keys = json.loads(identity.public_keys())
    server = declared(protected, "token_exchange", audience="far")
    token = await token_for(server, identity)
    assert protected.provider.issued[token].subject == "ann"
    (form,) = protected.provider.forms
    assert (form["grant_type"], form["audience"]) == (EXCHANGE, "far")
    assert form["subject_token_type"].endswith(":jwt")


async def test_token_exchange_needs_a_key(protected, token_for):
    """And says which setting."""
    server = declared(protected, "token_exchange")
    with pytest.raises(AuthError, match="SEARCHBUS_ATTACH_IDENTITY_KEY"):
        await token_for(server)
