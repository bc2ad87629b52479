"""What a token endpoint answers."""

from __future__ import annotations

import time
from types import SimpleNamespace as Of

import pytest

from searchbus_attach.auth.discovery import discover
from searchbus_attach.auth.faults import AuthFault
from searchbus_attach.auth.token_endpoint import Refused, Tokens, client_of, request_tokens

from .authorization_server import SECRET

FORM = {"grant_type": "client_credentials", "resource": "r", "scope": ""}


async def test_a_token_and_its_life(protected, http):
    """The client's secret is in the header; empty parameters are left out."""
    provider = await discover(http, protected.url)
    found = await request_tokens(http, provider, client_of(provider, "searchbus", SECRET), FORM)
    assert found.access_token in protected.provider.issued
    assert found.expires_s - found.issued_s == 3600
    (form,) = protected.provider.forms
    assert form["authorization"].startswith("Basic ")
    assert {"client_secret", "scope"}.isdisjoint(form)


async def test_a_refusal_has_its_code_and_no_text_of_others(protected, http):
    """The description may hold anything."""
    protected.provider.refuses["client_credentials"] = "invalid_scope"
    provider = await discover(http, protected.url)
    with pytest.raises(Refused, match=r"refuses a token \(invalid_scope\)$") as refused:
        await request_tokens(http, provider, client_of(provider, "searchbus", SECRET), FORM)
    assert refused.value.code == "invalid_scope"
    with pytest.raises(Refused, match="invalid_client"):
        await request_tokens(http, provider, client_of(provider, "searchbus", "wrong"), FORM)


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
async def test_an_answer_that_is_no_token_is_a_fault(protected, http, answer, monkeypatch):
    """Without its text."""
    monkeypatch.setattr(protected.provider, "_issue", lambda *_: answer)
    provider = await discover(http, protected.url)
    with pytest.raises(AuthFault, match="without a usable bearer token") as fault:
        await request_tokens(http, provider, client_of(provider, "searchbus", SECRET), FORM)
    assert "word" not in str(fault.value)


async def test_a_life_without_end_is_a_long_one(protected, http, monkeypatch):
    """A number of four hundred digits is no float."""
    answer = {"access_token": "word", "token_type": "bearer", "expires_in": 10**400}
    monkeypatch.setattr(protected.provider, "_issue", lambda *_: answer)
    provider = await discover(http, protected.url)
    found = await request_tokens(http, provider, client_of(provider, "searchbus", SECRET), FORM)
    assert not found.ends_soon(time.time())


def test_the_secret_is_sent_in_the_way_that_the_server_supports():
    """The header is preferred (RFC 6749, 2.3.1)."""

    def method(known, secret="x"):
        metadata = Of(token_endpoint_auth_methods_supported=known)
        return client_of(Of(metadata=metadata), "a", secret).token_endpoint_auth_method

    assert method(None) == method(["client_secret_basic"]) == "client_secret_basic"
    assert method(["client_secret_post"]) == "client_secret_post"
    assert method(None, "") == "none"


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
