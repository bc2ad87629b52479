"""A person's browser signs in."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest

from searchbus_attach.auth import pages

from .authorization_server import MixingProvider, protected_server
from .browser import sign_in
from .conftest import DOCUMENT, declared


@pytest.fixture
def server(protected, sign_ins):
    sign_ins.server = declared(protected, "authorization_code")
    return sign_ins.server


async def test_a_sign_in_to_the_end(protected, sign_ins, server, vault):
    """The tokens are those of the person, for this server, in the vault of the caller."""
    page = await sign_in(sign_ins.logins.ticket("safe", "caller-1"))
    assert page.status_code == 200
    assert "You are signed in to safe" in page.text
    kept = vault.get("safe", "caller-1")
    issued = protected.provider.issued[kept.access_token]
    assert (issued.subject, issued.resource) == ("ann", protected.url)
    assert vault.logins() == [("safe", "caller-1")]


async def test_the_first_page_says_for_whom_and_waits(protected, sign_ins, server):
    """Nobody who only follows a link signs in for another."""
    page = await sign_in(sign_ins.logins.ticket("safe", "<b>eve"), press=False)
    assert "&lt;b&gt;eve" in page.text
    assert "<b>" not in page.text
    assert protected.url in page.text
    assert protected.provider.clients.keys() == {"searchbus"}
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert (page.headers["cache-control"], page.headers["referrer-policy"]) == (
        "no-store", "no-referrer",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "use"), [("per_user", "reads its lists"), ("stateless", "calls of all callers")]
)
async def test_the_first_page_says_what_the_operators_sign_in_is_for(sign_ins, server, state, use):
    """For the lists, or for all calls."""
    sign_ins.server = msgspec.structs.replace(server, state=state)
    page = await sign_in(sign_ins.logins.ticket("safe", ""), press=False)
    assert use in page.text


async def test_it_ends_in_the_browser_in_which_it_began(protected, sign_ins, server, vault):
    """The cookie is missing in another one."""
    page = await sign_in(sign_ins.logins.ticket("safe", "caller-1"), cookies=False)
    assert page.status_code == 400
    assert "another browser" in page.text
    assert vault.logins() == []


async def test_two_sign_ins_in_one_browser_do_not_end_each_other(
    protected, sign_ins, server, vault
):
    """A person opens both addresses, then goes on in one after the other."""
    addresses = [sign_ins.logins.ticket("safe", caller) for caller in ("caller-1", "caller-2")]
    async with httpx.AsyncClient() as browser:
        await browser.get(addresses[0])
        at_provider = await browser.post(addresses[0])
        await browser.get(addresses[1])
        pages = [at_provider, await browser.post(addresses[1])]
        for page in pages:
            found = page
            while found.is_redirect:
                found = await browser.get(found.headers["location"])
            assert found.status_code == 200
    assert vault.logins() == [("safe", "caller-1"), ("safe", "caller-2")]


async def test_the_request_has_pkce_state_and_resource(protected, sign_ins, server):
    """RFC 7636, RFC 8707; the verifier is nowhere in it."""
    async with httpx.AsyncClient() as browser:
        address = sign_ins.logins.ticket("safe", "caller-1")
        first = await browser.get(address)
        page = await browser.post(address)
    assert page.status_code == 303
    asked = {
        name: values[0]
        for name, values in parse_qs(urlsplit(page.headers["location"]).query).items()
    }
    assert asked["code_challenge_method"] == "S256"
    assert (asked["resource"], asked["scope"]) == (protected.url, "read")
    assert asked["redirect_uri"] == f"{sign_ins.origin}/attach/servers/safe/callback"
    cookie = first.headers["set-cookie"].lower()
    assert {"httponly", "samesite=lax", "path=/attach"} <= set(cookie.split("; "))


async def test_a_page_of_another_site_cannot_press_the_button(protected, sign_ins, server):
    """Browsers send it no cookie of ours then (SameSite)."""
    async with httpx.AsyncClient() as browser:
        page = await browser.post(sign_ins.logins.ticket("safe", "caller-1"))
    assert page.status_code == 400
    assert "in this browser first" in page.text
    assert protected.provider.clients.keys() == {"searchbus"}


@pytest.mark.parametrize("by_document", [False, True])
@pytest.mark.parametrize("issuer", [{}, {"issuer": ""}])
@pytest.mark.parametrize("names", [("client_id",), ("client_id", "redirect_uri")])
async def test_a_provider_that_sends_on_to_another_gets_no_code_of_it(
    protected, sign_ins, server, vault, by_document, issuer, names
):
    """RFC 9700, 4.4; the other one sends no `iss` and knows us as a client without a secret."""
    honest = protected.provider
    honest.sends_iss, honest.reads_documents = False, by_document
    honest.documents_at = sign_ins.origin
    assert (await sign_in(sign_ins.logins.ticket("safe", "caller-1"))).status_code == 200
    for client in honest.clients.values():
        client["token_endpoint_auth_method"] = "none"
    seen = {name: honest.asked[-1][name] for name in names}
    mixing = MixingProvider(other=honest, sends_iss=False, seen=seen)
    async with protected_server(mixing) as attacker:
        other = declared(attacker, "authorization_code", **issuer)
        sign_ins.others = (msgspec.structs.replace(other, name="other"),)
        page = await sign_in(sign_ins.logins.ticket("other", "caller-1"))
    assert len(honest.asked) == 2
    assert mixing.stolen == []
    # Either honest refuses the address, or it sends the browser to that of its own server.
    assert ("sent you on to the one of another server" in page.text) == ("redirect_uri" in names)
    assert page.status_code == 400
    assert vault.logins() == [("safe", "caller-1")]


@pytest.mark.parametrize("query", ["", "?state=x&code=y", "?error=access_denied"])
async def test_a_callback_that_began_nowhere_is_refused(sign_ins, server, query):
    """Without a word about why in detail."""
    async with httpx.AsyncClient() as browser:
        page = await browser.get(f"{sign_ins.logins.redirect_uri('safe')}{query}")
    assert page.status_code == 400
    assert "not the end of a sign-in" in page.text


async def test_a_server_that_is_gone_cannot_be_signed_in_to(sign_ins):
    """The address outlives the declaration."""
    page = await sign_in(sign_ins.logins.ticket("safe", "caller-1"))
    assert page.status_code == 400
    assert "no such server" in page.text


async def test_the_person_can_refuse(protected, sign_ins, server, vault, monkeypatch):
    """The page says so, and the vault stays empty."""
    monkeypatch.setitem(protected.provider.refuses, "authorization_code", "access_denied")
    page = await sign_in(sign_ins.logins.ticket("safe", "caller-1"))
    assert page.status_code == 400
    assert "access_denied" in page.text
    assert vault.logins() == []


async def test_sign_ins_are_counted_by_their_outcome(protected, sign_ins, server, monkeypatch):
    """An address that names no server counts for none."""
    counted: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        pages, "count", lambda *name, **labels: counted.append((*name, *labels.values()))
    )
    address = sign_ins.logins.ticket("safe", "caller-1")
    await sign_in(address)
    await sign_in(address[:-3])
    protected.provider.refuses["authorization_code"] = "access_denied"
    await sign_in(address)
    assert counted == [("logins", "safe", "ok"), ("logins", "safe", "failed")]


async def test_a_client_metadata_document_names_its_own_address_and_server(sign_ins, server):
    """An authorization server compares them; without a configured address there is none."""
    async with httpx.AsyncClient() as http:
        found = (await http.get(f"{sign_ins.origin}/attach/servers/safe/client.json")).json()
        unknown = await http.get(f"{sign_ins.origin}/attach/servers/other/client.json")
    assert found["client_id"] == DOCUMENT
    assert found["client_name"] == "searchbus (safe)"
    assert found["redirect_uris"] == [f"{sign_ins.origin}/attach/servers/safe/callback"]
    assert unknown.status_code == 400
    assert found["grant_types"] == ["authorization_code", "refresh_token"]
    assert "client_secret" not in found
