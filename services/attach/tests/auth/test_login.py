"""Sign-ins: tickets, the issuer of the answer, refreshing."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from searchbus_attach.auth import credentials, login
from searchbus_attach.auth.credentials import Credentials
from searchbus_attach.auth.login import Logins
from searchbus_attach.auth.provider import AuthHttp, TokenRefusedError
from searchbus_attach.auth.vault import Tokens
from searchbus_attach.errors import AuthError, LoginRequiredError
from searchbus_testing import until

from .browser import sign_in
from .conftest import DOCUMENT, declared


def state_of(address: str) -> str:
    """Of an address where a sign-in goes on."""
    return parse_qs(urlsplit(address).query)["state"][0]


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
    with pytest.raises(LoginRequiredError, match="not complete"):
        logins.read(text[:-3])
    monkeypatch.setattr(login, "TICKET_S", -1)
    with pytest.raises(LoginRequiredError, match="too old"):
        logins.read(logins.ticket("safe", "ann").rpartition("/")[2])


async def test_without_a_sign_in_there_are_no_tokens(protected, logins):
    """Said at once, without asking anybody."""
    server = declared(protected, "authorization_code")
    with pytest.raises(LoginRequiredError, match="nobody signed in"):
        await logins.tokens(server, "ann", "")
    assert protected.headers == []


async def test_the_answer_of_another_authorization_server_is_refused(
    protected, sign_ins, server, vault, monkeypatch
):
    """RFC 9207."""
    address = await sign_ins.logins.begin(server, "ann", "nonce")
    pending = sign_ins.logins.pending(state_of(address), "nonce")
    elsewhere = msgspec.structs.replace(pending, issuer="https://before.example")
    for begun, issuer in (
        (pending, "https://evil.example"), (pending, None), (elsewhere, protected.provider.issuer),
    ):  # fmt: skip
        with pytest.raises(AuthError, match="another authorization server"):
            await sign_ins.logins.finish(server, begun, came_to="safe", code="x", issuer=issuer)
    assert protected.provider.forms == []
    monkeypatch.setattr(login, "_STATE_S", -1)
    late = await sign_ins.logins.begin(server, "ann", "nonce")
    with pytest.raises(LoginRequiredError, match="too long"):
        sign_ins.logins.pending(state_of(late), "nonce")


async def test_a_token_is_refreshed_and_the_new_one_kept(protected, sign_ins, server, vault):
    """A refresh token is used once."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    first = await sign_ins.logins.tokens(server, "ann", "")
    assert first == await sign_ins.logins.tokens(server, "ann", "")
    second = await sign_ins.logins.tokens(server, "ann", first.access_token)
    assert second.access_token != first.access_token
    assert second.refresh_token != first.refresh_token
    assert vault.get("safe", "ann") == second


async def test_a_refresh_token_that_is_not_replaced_is_kept(
    protected, sign_ins, server, vault, monkeypatch
):
    """RFC 6749, 6."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    kept = vault.get("safe", "ann")
    answer = {"access_token": "another", "token_type": "bearer"}
    monkeypatch.setattr(protected.provider, "_issue", lambda *_: answer)
    renewed = await sign_ins.logins.tokens(server, "ann", kept.access_token)
    assert (renewed.access_token, renewed.refresh_token) == ("another", kept.refresh_token)


async def test_a_refused_refresh_ends_the_sign_in(protected, sign_ins, server, vault):
    """The entry is removed; a failure of another kind leaves it."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    rejected = vault.get("safe", "ann").access_token
    protected.provider.refuses["refresh_token"] = "temporarily_unavailable"
    with pytest.raises(TokenRefusedError):
        await sign_ins.logins.tokens(server, "ann", rejected)
    assert vault.get("safe", "ann") is not None
    protected.provider.refuses["refresh_token"] = "invalid_grant"
    with pytest.raises(LoginRequiredError, match="has ended"):
        await sign_ins.logins.tokens(server, "ann", rejected)
    assert vault.get("safe", "ann") is None


async def test_a_sign_in_during_a_refused_refresh_stays(
    protected, sign_ins, server, vault, monkeypatch
):
    """The refusal is of the one before."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    old = vault.get("safe", "ann")
    new = msgspec.structs.replace(old, access_token="new", refresh_token="newer")

    async def refuse(*_):
        vault.put("safe", "ann", new)
        raise TokenRefusedError("refused", "invalid_grant")

    monkeypatch.setattr(login.AuthorizationProvider, "tokens", refuse)
    assert await sign_ins.logins.tokens(server, "ann", old.access_token) == new
    assert vault.get("safe", "ann") == new


async def test_who_signs_out_during_a_refresh_stays_signed_out(
    protected, sign_ins, server, vault, monkeypatch
):
    """The tokens that come then are not kept; those of a new sign-in are."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    old = vault.get("safe", "ann")
    renewed, new = (msgspec.structs.replace(old, access_token=one) for one in ("renewed", "new"))
    meanwhile = [lambda: vault.put("safe", "ann", new), lambda: vault.remove("safe", "ann")]

    async def tokens(*_):
        meanwhile.pop(0)()
        return renewed

    monkeypatch.setattr(login.AuthorizationProvider, "tokens", tokens)
    assert await sign_ins.logins.tokens(server, "ann", old.access_token) == new
    with pytest.raises(LoginRequiredError, match="nobody signed in"):
        await sign_ins.logins.tokens(server, "ann", new.access_token)
    assert vault.get("safe", "ann") is None


async def test_a_sign_in_at_another_authorization_server_does_not_count(
    protected, sign_ins, server, vault
):
    """Its refresh token is not sent to the new one."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    kept = vault.get("safe", "ann")
    protected.provider.forms.clear()
    vault.put("safe", "ann", msgspec.structs.replace(kept, issuer="https://before.example"))
    with pytest.raises(LoginRequiredError, match="another authorization server"):
        await sign_ins.logins.tokens(server, "ann", kept.access_token)
    assert protected.provider.forms == []


@pytest.mark.parametrize("methods", [("plain",), (), None])
async def test_pkce_must_be_supported(protected, logins, methods):
    """Otherwise a code that leaks would be enough; a server that lists no method supports none."""
    protected.provider.challenge_methods = methods
    server = declared(protected, "authorization_code")
    with pytest.raises(AuthError, match="PKCE"):
        await logins.begin(server, "ann", "nonce")


async def test_tokens_are_not_sent_to_another_server_of_the_same_name(protected, sign_ins, server):
    """One that was attached in the place of the server that people signed in to."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    assert await sign_ins.logins.tokens(server, "ann", "")
    other = msgspec.structs.replace(server, url=protected.url.replace("/mcp", "/other"))
    with pytest.raises(LoginRequiredError, match="another address"):
        await sign_ins.logins.tokens(other, "ann", "")


async def test_a_caller_that_gives_up_does_not_end_its_sign_in(
    protected, sign_ins, server, monkeypatch
):
    """The authorization server has replaced the refresh token already."""
    monkeypatch.setattr(credentials, "_FRESH_S", 0.0)
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    found = Credentials(AuthHttp(), logins=sign_ins.logins)
    source = found._source(server, server.auth, "ann")
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
    await found.aclose()


async def test_the_refresh_token_is_revoked(protected, sign_ins, vault):
    """And with it what was issued for it."""
    sign_ins.server = server = declared(protected, "authorization_code")
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    tokens = vault.get("safe", "ann")
    said = await sign_ins.logins.revoke(server, tokens)
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
    found = await sign_ins.logins.revoke(server, tokens)
    assert said in found
    assert protected.provider.revoked == []


async def client_id(logins, server) -> str:
    """That a sign-in begins with."""
    address = await logins.begin(server, "ann", "nonce")
    return parse_qs(urlsplit(address).query)["client_id"][0]


async def test_a_client_is_registered_once_for_each_address(protected, http, vault):
    """And kept; for another address of the pages, or of what a browser comes back to, it is of no
    use."""
    server = declared(protected, "authorization_code")
    first, second = (Logins(http, vault, f"http://127.0.0.1:{n}/a") for n in (5, 6))
    assert await client_id(first, server) == await client_id(first, server) == "c1"
    assert await client_id(second, server) == "c2"
    before = msgspec.structs.replace(
        vault.client("safe"), redirect_uri="http://127.0.0.1:6/a/callback"
    )
    vault.put_client("safe", before)
    assert await client_id(second, server) == "c3"
    assert protected.provider.clients["c1"]["redirect_uris"] == [
        "http://127.0.0.1:5/a/servers/safe/callback"
    ]


async def test_sign_ins_that_begin_together_have_one_client(protected, http, vault):
    """Over all processes: the code of one client is of no use to another."""
    server = declared(protected, "authorization_code")
    workers = [Logins(http, vault, "http://127.0.0.1:5/a") for _ in range(4)]
    found = await asyncio.gather(*(client_id(worker, server) for worker in workers))
    assert found == ["c1"] * 4


async def test_a_refresh_after_another_address_of_the_pages(protected, sign_ins, server, vault):
    """Tokens are refreshed without a redirect: by the client that they were issued to."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    first = vault.get("safe", "ann")
    moved = Logins(AuthHttp(), vault, "http://127.0.0.1:5/elsewhere")
    second = await moved.tokens(server, "ann", first.access_token)
    assert (second.client_id, second.access_token != first.access_token) == ("c1", True)


async def test_a_sign_in_ends_as_the_client_that_began_it(protected, sign_ins, server, vault):
    """A client of a later registration cannot redeem the code."""
    page = await sign_ins.logins.begin(server, "ann", "nonce")
    pending = sign_ins.logins.pending(state_of(page), "nonce")
    vault.remove_client("safe")
    with pytest.raises(LoginRequiredError, match="not known any more"):
        await sign_ins.logins.finish(
            server, pending, came_to="safe", code="x", issuer=protected.provider.issuer
        )
    assert protected.provider.forms == []


async def test_a_registered_client_that_is_refused_is_forgotten(protected, sign_ins, server, vault):
    """Some authorization servers end registrations; the next sign-in begins with another."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    kept = vault.get("safe", "ann")
    del protected.provider.clients["c1"]
    with pytest.raises(LoginRequiredError, match="has ended"):
        await sign_ins.logins.tokens(server, "ann", kept.access_token)
    assert (vault.get("safe", "ann"), vault.client("safe")) == (None, None)
    protected.provider.clients["ended"] = {}  # so that the next one has another id
    assert await client_id(sign_ins.logins, server) == "c2"
    page = await sign_ins.logins.begin(server, "ann", "nonce")
    del protected.provider.clients["c2"]
    pending = sign_ins.logins.pending(state_of(page), "nonce")
    with pytest.raises(TokenRefusedError):
        await sign_ins.logins.finish(
            server, pending, came_to="safe", code="x", issuer=protected.provider.issuer
        )
    assert vault.client("safe") is None


async def test_a_client_whose_secret_expired_is_registered_anew(protected, sign_ins, server, vault):
    """As its record says (RFC 7591, 3.2.1)."""
    await client_id(sign_ins.logins, server)
    known = vault.client("safe")
    for end_s, expected in ((0, "c1"), (1, "c2")):
        ended = {**known.information, "client_secret_expires_at": end_s}
        vault.put_client("safe", msgspec.structs.replace(known, information=ended))
        assert await client_id(sign_ins.logins, server) == expected


async def test_the_client_metadata_document_comes_before_registration(protected, sign_ins, vault):
    """A whole sign-in and a refresh without a secret (SEP-991)."""
    protected.provider.reads_documents = True
    protected.provider.documents_at = sign_ins.origin
    sign_ins.server = server = declared(protected, "authorization_code")
    page = await sign_in(sign_ins.logins.ticket("safe", "ann"))
    assert page.status_code == 200, page.text
    kept = vault.get("safe", "ann")
    assert kept.client_id == DOCUMENT
    renewed = await sign_ins.logins.tokens(server, "ann", kept.access_token)
    assert renewed.access_token != kept.access_token
    assert [form["client_id"] for form in protected.provider.forms] == [DOCUMENT, DOCUMENT]
    assert [form["authorization"] for form in protected.provider.forms] == ["", ""]
    assert vault.client("safe") is None


async def test_a_declared_client_comes_before_the_document(protected, sign_ins):
    """Registration is the last choice, where the document is unknown to the other side."""
    own = declared(protected, "authorization_code", client_id="searchbus")
    for reads, expected in ((True, DOCUMENT), (False, "c1"), (True, DOCUMENT)):
        protected.provider.reads_documents = reads
        assert await client_id(sign_ins.logins, own) == "searchbus"
        assert (
            await client_id(sign_ins.logins, declared(protected, "authorization_code")) == expected
        )


async def test_tokens_of_a_registered_client_stay_its_own(protected, sign_ins, server, vault):
    """Its refresh tokens are of no use to the client of the document."""
    await sign_in(sign_ins.logins.ticket("safe", "ann"))
    first = vault.get("safe", "ann")
    assert first.client_id == "c1"
    protected.provider.reads_documents = True
    found = await sign_ins.logins.tokens(server, "ann", first.access_token)
    assert found.access_token != first.access_token
    assert protected.provider.clients.keys() == {"searchbus", "c1"}


async def test_revocation_can_be_asked_more_than_once(protected, sign_ins, server, vault):
    """Each sign-in of a server ends by a request of its own."""
    said = []
    for caller in ("ann", "bob"):
        await sign_in(sign_ins.logins.ticket("safe", caller))
        said.append(await sign_ins.logins.revoke(server, vault.get("safe", caller)))
    assert said == ["forgotten and revoked"] * 2
