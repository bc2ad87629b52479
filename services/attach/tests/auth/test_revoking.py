"""Tokens that are given back."""

from __future__ import annotations

import pytest

from searchbus_attach.auth.revoking import revoke
from searchbus_attach.auth.token_endpoint import Tokens

from .browser import sign_in
from .conftest import declared


async def test_the_refresh_token_is_revoked(protected, sign_ins, vault):
    """And with it what was issued for it."""
    sign_ins.server = server = declared(protected, "authorization_code")
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    tokens = vault.get("safe", "ann")
    said = await revoke(sign_ins.logins, server, server.auth, tokens)
    assert said == "forgotten and revoked"
    assert protected.provider.revoked == [tokens.refresh_token]


@pytest.mark.parametrize(
    ("issuer", "said"),
    [("https://before.example", "revokes no tokens"), ("", "cannot be reached")],
)
async def test_what_cannot_be_revoked_is_said(protected, sign_ins, issuer, said):
    """The tokens are forgotten in any case."""
    server = declared(protected, "authorization_code")
    if not issuer:
        protected.url = "http://127.0.0.1:9/mcp"
        server = declared(protected, "authorization_code")
    tokens = Tokens(access_token="word", issuer=issuer)
    found = await revoke(sign_ins.logins, server, server.auth, tokens)
    assert said in found
    assert protected.provider.revoked == []
