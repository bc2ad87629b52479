"""Which authorization server is taken, and which is not."""

from __future__ import annotations

import pytest

from searchbus_attach.auth import discovery
from searchbus_attach.auth.discovery import discover
from searchbus_attach.auth.faults import AuthFault


async def test_the_server_names_its_authorization_server(protected, http):
    """By its challenge, its metadata and the issuer's metadata."""
    found = await discover(http, protected.url)
    assert found.issuer.rstrip("/") == protected.provider.issuer
    assert (found.resource, found.scope) == (protected.url, "read")


async def test_a_declared_issuer_needs_no_metadata_of_the_server(protected, http):
    """The resource is the server's address then."""
    protected.has_metadata = False
    found = await discover(http, protected.url, protected.provider.issuer)
    assert (found.resource, found.scope) == (protected.url, "")
    with pytest.raises(AuthFault, match="set 'issuer'"):
        await discover(http, protected.url)


async def test_another_issuer_than_the_declared_one_is_refused(protected, http):
    """A server cannot lead a secret elsewhere."""
    protected.named_server = "http://127.0.0.1:9"
    with pytest.raises(AuthFault, match="not the declared issuer"):
        await discover(http, protected.url, protected.provider.issuer)
    assert protected.provider.forms == []


async def test_metadata_of_another_issuer_are_refused(protected, http):
    """RFC 8414, 3.3."""
    protected.provider.stated_issuer = "http://other.example"
    with pytest.raises(AuthFault, match=r"another issuer, http://other\.example"):
        await discover(http, protected.url, protected.provider.issuer)


@pytest.mark.parametrize("stated", ["http://other.example/mcp", "{url}/deeper"])
async def test_metadata_of_another_resource_are_refused(protected, http, stated):
    """RFC 9728, 3.3."""
    protected.stated_resource = stated.format(url=protected.url)
    with pytest.raises(AuthFault, match="another resource"):
        await discover(http, protected.url, protected.provider.issuer)


async def test_a_challenge_that_leads_to_another_host_is_not_followed(protected, http, monkeypatch):
    """A server must not choose which hosts we ask."""
    refusal = protected.refusal({})
    refusal.headers["WWW-Authenticate"] = 'Bearer resource_metadata="http://127.0.0.1:9/"'
    monkeypatch.setattr(protected, "refusal", lambda _: refusal)
    found = await discover(http, protected.url, protected.provider.issuer)
    assert found.resource == protected.url


async def test_a_challenge_with_something_that_is_no_address_is_left(protected, http, monkeypatch):
    """The HTTP client refuses it with an error of its own."""
    refusal = protected.refusal({})
    refusal.headers["WWW-Authenticate"] = f'Bearer resource_metadata="{protected.url}/\tx"'
    monkeypatch.setattr(protected, "refusal", lambda _: refusal)
    found = await discover(http, protected.url, protected.provider.issuer)
    assert found.resource == protected.url


def test_an_address_that_is_not_https_is_refused():
    """Unless the declaration says http itself."""
    with pytest.raises(AuthFault, match="is not https"):
        discovery._check_address("http://127.0.0.1/token", plain=False)
    with pytest.raises(AuthFault, match="is not https"):
        discovery._check_address("https://user@x.example/token", plain=True)
    discovery._check_address("https://x.example/token", plain=False)
