"""Sign-ins: tickets, the issuer of the answer, refreshing."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from searchbus_attach.auth import login as module
from searchbus_attach.auth import token_source
from searchbus_attach.auth.credentials import Credentials
from searchbus_attach.auth.faults import AuthFault, LoginRequired
from searchbus_attach.auth.http import AuthHttp
from searchbus_attach.auth.token_endpoint import Refused
from searchbus_testing import until

from .browser import sign_in
from .conftest import declared


@pytest.fixture
def server(protected, sign_ins):
    sign_ins.server = declared(protected, "authorization_code")
    return sign_ins.server


def test_a_ticket_is_read_until_it_is_too_old(logins, monkeypatch):
    """It cannot be made by others."""
    address = logins.ticket("safe", "ann")
    assert address.startswith("http://127.0.0.1:9/attach/login/")
    text = address.rpartition("/")[2]
    found = logins.read(text)
    assert (found.server, found.caller) == ("safe", "ann")
    with pytest.raises(LoginRequired, match="not complete"):
        logins.read(text[:-3])
    monkeypatch.setattr(module, "TICKET_S", -1)
    with pytest.raises(LoginRequired, match="too old"):
        logins.read(logins.ticket("safe", "ann").rpartition("/")[2])


async def test_without_a_sign_in_there_are_no_tokens(protected, logins):
    """Said at once, without asking anybody."""
    server = declared(protected, "authorization_code")
    with pytest.raises(LoginRequired, match="nobody signed in"):
        await logins.tokens(server, server.auth, "ann", "")
    assert protected.headers == []


async def test_the_answer_of_another_authorization_server_is_refused(
    protected, sign_ins, server, vault, monkeypatch
):
    """RFC 9207."""
    address = await sign_ins.logins.depart(server, server.auth, "ann", "nonce")
    state = address.partition("state=")[2].partition("&")[0]
    for issuer in ("https://evil.example", None):
        with pytest.raises(AuthFault, match="another authorization server"):
            await sign_ins.logins.arrive(
                server, server.auth, state=state, nonce="nonce", code="x", issuer=issuer
            )
    assert protected.provider.forms == []
    monkeypatch.setattr(module, "_STATE_S", -1)
    late = await sign_ins.logins.depart(server, server.auth, "ann", "nonce")
    state = late.partition("state=")[2].partition("&")[0]
    with pytest.raises(LoginRequired, match="too long"):
        sign_ins.logins.server_of(state, "nonce")


async def test_a_token_is_refreshed_and_the_new_one_kept(protected, sign_ins, server, vault):
    """A refresh token is used once."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    first = await sign_ins.logins.tokens(server, server.auth, "ann", "")
    assert first == await sign_ins.logins.tokens(server, server.auth, "ann", "")
    second = await sign_ins.logins.tokens(server, server.auth, "ann", first.access_token)
    assert second.access_token != first.access_token
    assert second.refresh_token != first.refresh_token
    assert vault.get("safe", "ann") == second


async def test_a_refused_refresh_ends_the_sign_in(protected, sign_ins, server, vault):
    """The entry is removed; a failure of another kind leaves it."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    rejected = vault.get("safe", "ann").access_token
    protected.provider.refuses["refresh_token"] = "temporarily_unavailable"
    with pytest.raises(Refused):
        await sign_ins.logins.tokens(server, server.auth, "ann", rejected)
    assert vault.get("safe", "ann") is not None
    protected.provider.refuses["refresh_token"] = "invalid_grant"
    with pytest.raises(LoginRequired, match="has ended"):
        await sign_ins.logins.tokens(server, server.auth, "ann", rejected)
    assert vault.get("safe", "ann") is None


async def test_a_sign_in_at_another_authorization_server_does_not_count(
    protected, sign_ins, server, vault
):
    """Its refresh token is not sent to the new one."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    kept = vault.get("safe", "ann")
    protected.provider.forms.clear()
    vault.put("safe", "ann", msgspec.structs.replace(kept, issuer="https://before.example"))
    with pytest.raises(LoginRequired, match="another authorization server"):
        await sign_ins.logins.tokens(server, server.auth, "ann", kept.access_token)
    assert protected.provider.forms == []


async def test_pkce_must_be_supported(protected, logins):
    """Otherwise a code that leaks would be enough."""
    protected.provider.challenge_methods = ("plain",)
    server = declared(protected, "authorization_code")
    with pytest.raises(AuthFault, match="PKCE"):
        await logins.depart(server, server.auth, "ann", "nonce")


async def test_tokens_are_not_sent_to_another_server_of_the_same_name(protected, sign_ins, server):
    """One that was attached in the place of the server that people signed in to."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    assert await sign_ins.logins.tokens(server, server.auth, "ann", "")
    other = msgspec.structs.replace(server, url=protected.url.replace("/mcp", "/other"))
    with pytest.raises(LoginRequired, match="another address"):
        await sign_ins.logins.tokens(other, other.auth, "ann", "")


async def test_a_caller_that_gives_up_does_not_end_its_sign_in(
    protected, sign_ins, server, monkeypatch
):
    """The authorization server has replaced the refresh token already."""
    monkeypatch.setattr(token_source, "_FRESH_S", 0.0)
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    credentials = Credentials(AuthHttp(), logins=sign_ins.logins)
    source = credentials._source(server, server.auth, "ann")
    first = await source.token()
    protected.provider.pause_s = 0.2
    asked = len(protected.provider.forms)
    task = asyncio.create_task(source.token(first))
    await until(lambda: len(protected.provider.forms) > asked)
    task.cancel()
    await asyncio.wait([task])
    second = await source.token(first)
    assert second in protected.provider.issued
    assert second != first
    assert len(protected.provider.forms) == asked + 1
    await credentials.aclose()
