"""Which authorization server is taken and which is not; what it is asked, and what it answers."""

from __future__ import annotations

import time
from types import SimpleNamespace as Of

import pytest

from searchbus_attach.auth.provider import (
    AuthorizationProvider,
    TokenRefusedError,
    check_address,
    discover,
)
from searchbus_attach.auth.vault import Tokens
from searchbus_attach.declare.auth_methods import Auth
from searchbus_attach.errors import AuthError

from .authorization_server import SECRET
from .conftest import declared

FORM = {"grant_type": "client_credentials", "resource": "r", "scope": ""}
REDIRECT = "http://127.0.0.1:5/servers/safe/callback"


def named_by_server(protected):
    """A server whose declaration names no issuer."""
    return declared(protected, "authorization_code", issuer="")


async def test_the_server_names_its_authorization_server(protected, http):
    """By its challenge, its metadata and the issuer's metadata."""
    found = await discover(http, named_by_server(protected))
    assert found.issuer.rstrip("/") == protected.provider.issuer
    assert (found.resource, found.scope) == (protected.url, "read")


async def test_a_declared_issuer_needs_no_metadata_of_the_server(protected, http):
    """The resource is the server's address then."""
    protected.has_metadata = False
    found = await discover(http, declared(protected, "authorization_code"))
    assert (found.resource, found.scope) == (protected.url, "")
    with pytest.raises(AuthError, match="set 'issuer'"):
        await discover(http, named_by_server(protected))


async def test_another_issuer_than_the_declared_one_is_refused(protected, http):
    """A server cannot lead a secret elsewhere."""
    protected.named_server = "http://127.0.0.1:9"
    with pytest.raises(AuthError, match="not the declared issuer"):
        await discover(http, declared(protected, "authorization_code"))
    assert protected.provider.forms == []


async def test_metadata_of_another_issuer_are_refused(protected, http):
    """RFC 8414, 3.3."""
    protected.provider.stated_issuer = "http://other.example"
    with pytest.raises(AuthError, match=r"another issuer, http://other\.example"):
        await discover(http, declared(protected, "authorization_code"))


@pytest.mark.parametrize("stated", ["http://other.example/mcp", "{url}/deeper"])
async def test_metadata_of_another_resource_are_refused(protected, http, stated):
    """RFC 9728, 3.3."""
    protected.stated_resource = stated.format(url=protected.url)
    with pytest.raises(AuthError, match="another resource"):
        await discover(http, declared(protected, "authorization_code"))


@pytest.mark.parametrize("named", ["http://127.0.0.1:9/", "{url}/\tx"])
async def test_a_challenge_that_leads_to_another_host_is_not_followed(
    protected, http, monkeypatch, named
):
    """A server must not choose which hosts we ask; nor is what is not an address an error."""
    refusal = protected.refusal({})
    challenge = f'Bearer resource_metadata="{named.format(url=protected.url)}"'
    refusal.headers["WWW-Authenticate"] = challenge
    monkeypatch.setattr(protected, "refusal", lambda _: refusal)
    found = await discover(http, declared(protected, "authorization_code"))
    assert found.resource == protected.url


def test_an_address_that_is_not_https_is_refused():
    """Unless the declaration says http itself."""
    with pytest.raises(AuthError, match="is not https"):
        check_address("http://127.0.0.1/token", plain=False)
    with pytest.raises(AuthError, match="is not https"):
        check_address("https://user@x.example/token", plain=True)
    check_address("https://x.example/token", plain=False)


async def test_an_address_of_which_no_request_can_be_made_is_refused(protected, http):
    """An error of the HTTP client would be one of the service."""
    protected.named_server = f"http://x.example/{'a' * 70_000}"
    with pytest.raises(AuthError, match="is too long"):
        await discover(http, named_by_server(protected))


async def test_a_token_and_its_life(protected, http):
    """The client's secret is in the header; empty parameters are left out."""
    provider = await discover(http, declared(protected, "client_credentials"))
    found = await provider.tokens(provider.declared_client(), FORM)
    assert found.access_token in protected.provider.issued
    assert found.expires_s - found.issued_s == 3600
    (form,) = protected.provider.forms
    assert form["authorization"].startswith("Basic ")
    assert {"client_secret", "scope"}.isdisjoint(form)


async def test_a_refusal_has_its_code_and_no_text_of_others(protected, http):
    """The description may hold anything."""
    protected.provider.refuses["client_credentials"] = "invalid_scope"
    provider = await discover(http, declared(protected, "client_credentials"))
    with pytest.raises(TokenRefusedError, match=r"refuses a token \(invalid_scope\)$") as refused:
        await provider.tokens(provider.declared_client(), FORM)
    assert refused.value.code == "invalid_scope"
    server = declared(protected, "client_credentials", client_secret="wrong")
    provider = await discover(http, server)
    with pytest.raises(TokenRefusedError, match="invalid_client"):
        await provider.tokens(provider.declared_client(), FORM)


@pytest.mark.parametrize(
    "answer",
    [
        {"access_token": "word", "token_type": "mac"},
        {"access_token": "wörd", "token_type": "bearer"},
        {"access_token": "", "token_type": "bearer"},
        {"access_token": "wo\nrd", "token_type": "bearer"},
        ["word"],
    ],
)
async def test_an_answer_without_a_token_is_a_failure(protected, http, answer, monkeypatch):
    """Without its text."""
    monkeypatch.setattr(protected.provider, "_issue", lambda *_: answer)
    provider = await discover(http, declared(protected, "client_credentials"))
    with pytest.raises(AuthError, match="without a usable bearer token") as error:
        await provider.tokens(provider.declared_client(), FORM)
    assert "word" not in str(error.value)


async def test_a_life_without_end_is_a_long_one(protected, http, monkeypatch):
    """A number of four hundred digits does not fit into a float."""
    answer = {"access_token": "word", "token_type": "bearer", "expires_in": 10**400}
    monkeypatch.setattr(protected.provider, "_issue", lambda *_: answer)
    provider = await discover(http, declared(protected, "client_credentials"))
    found = await provider.tokens(provider.declared_client(), FORM)
    assert not found.ends_soon(time.time())


def test_the_secret_is_sent_in_the_way_that_the_server_supports(http):
    """The header is preferred (RFC 6749, 2.3.1)."""

    def method(known, secret="x"):
        metadata = Of(token_endpoint_auth_methods_supported=known)
        auth = Auth(type="client_credentials", client_id="a", client_secret=secret)
        found = AuthorizationProvider(http, metadata, auth, resource="", scope="").declared_client()
        return found.token_endpoint_auth_method

    assert method(None) == method(["client_secret_basic"]) == "client_secret_basic"
    assert method(["client_secret_post"]) == "client_secret_post"
    assert method(None, "") == "none"


async def test_where_no_registration_is_offered_an_id_must_be_declared(protected, http):
    """The message names the keys."""
    protected.provider.registers = False
    provider = await discover(http, named_by_server(protected))
    with pytest.raises(AuthError, match=f"{REDIRECT}, and set 'client_id' and 'issuer'"):
        await provider.register("safe", REDIRECT)


async def test_a_refused_registration_has_no_text_of_others(protected, http):
    """The endpoint answers with its secret."""
    provider = await discover(http, named_by_server(protected))
    with pytest.raises(AuthError, match=r"refuses to register a client$") as error:
        await provider.register("safe", "http://127.0.0.1:5/refused-word")
    assert SECRET not in str(error.value)


def test_tokens_are_replaced_before_their_end_and_never_printed():
    """A minute before, or in the last tenth of a short life."""
    long = Tokens(access_token="word", issued_s=0.0, expires_s=3600.0)
    assert (long.ends_soon(3539.0), long.ends_soon(3541.0)) == (False, True)
    short = Tokens(access_token="word", issued_s=0.0, expires_s=10.0)
    assert (short.ends_soon(8.9), short.ends_soon(9.1), short.expired(9.1)) == (False, True, False)
    endless = Tokens(access_token="word")
    assert not endless.ends_soon(time.time())
    assert not endless.expired(time.time())
    assert "word" not in f"{long!r}{long}"
