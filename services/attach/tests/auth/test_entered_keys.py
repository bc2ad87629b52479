"""A person enters the API key of a server that has no OAuth."""

from __future__ import annotations

import httpx
import pytest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.errors import LoginRequiredError, ServerDeclarationError
from searchbus_attach.settings import AttachSettings

from .conftest import DOCUMENTS

KEY = "sk-secret.Key_1"


def declare(**auth):
    return parse_server(
        "safe", {"url": "https://safe.example/mcp", "auth": {"type": "api_key", **auth}}
    )


@pytest.fixture
def server(sign_ins):
    sign_ins.server = declare(key_header="X-Api-Key")
    return sign_ins.server


async def enter(address: str, body: str, *, cookies: bool = True) -> httpx.Response:
    async with httpx.AsyncClient() as browser:
        page = await browser.get(address)
        assert 'type="password"' in page.text and "X-Api-Key of safe" in page.text
        if not cookies:
            browser.cookies.clear()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return await browser.post(address, content=body, headers=kind)


async def test_the_key_is_kept_for_its_caller_and_sent_in_its_header(sign_ins, server, vault):
    """No page and no log shows it."""
    page = await enter(sign_ins.logins.ticket("safe", "caller-1"), f"key=+{KEY}+")
    assert page.status_code == 200 and KEY not in page.text
    kept = await sign_ins.logins.tokens(server, "caller-1", "")
    assert server.auth.header(kept.access_token) == ("X-Api-Key", KEY)
    assert vault.logins() == [("safe", "caller-1")]
    for caller, rejected in (("caller-2", ""), ("caller-1", KEY)):
        with pytest.raises(LoginRequiredError):
            await sign_ins.logins.tokens(server, caller, rejected)
    assert KEY not in repr(kept)
    assert "revoke the key" in await sign_ins.logins.revoke(server, kept)


@pytest.mark.parametrize("body", ["", "key=", "key=a%0d%0ab", "key=a+b", "key=" + "a" * 20_000])
async def test_what_is_no_key_is_refused(sign_ins, server, vault, body):
    """A header could not have it, or it is too long."""
    page = await enter(sign_ins.logins.ticket("safe", "caller-1"), body)
    assert page.status_code == 400 and vault.logins() == []


async def test_another_site_cannot_enter_one(sign_ins, server, vault):
    """Its browser sends no cookie of ours."""
    page = await enter(sign_ins.logins.ticket("safe", "caller-1"), f"key={KEY}", cookies=False)
    assert page.status_code == 400 and vault.logins() == []


def test_the_header_is_one_that_carries_keys():
    """Others mean something to HTTP, or belong to another type."""
    assert declare().auth.header("k") == ("Authorization", "Bearer k")
    for wrong in ("Host", "Cookie", "X-A: b", "Transfer-Encoding", "x" * 80):
        with pytest.raises(ServerDeclarationError, match="key_header"):
            declare(key_header=wrong)


def test_the_documents_of_the_client_are_served_below_a_public_address():
    """They are used first wherever an authorization server takes them."""
    public = AttachSettings(attach_login_url="https://bus.example/login")
    assert public.client_documents == "https://bus.example/login/servers/{server}/client.json"
    assert AttachSettings(attach_login_port=1234).client_documents == ""
    given = AttachSettings(
        attach_login_url="https://a.example", attach_client_metadata_url=DOCUMENTS
    )
    assert given.client_documents == DOCUMENTS
