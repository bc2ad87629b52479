"""Clients that register themselves."""

from __future__ import annotations

import pytest

from searchbus_attach.auth.discovery import discover
from searchbus_attach.auth.faults import AuthFault
from searchbus_attach.auth.registration import client_for


async def test_a_client_is_registered_once_for_each_address(protected, http, vault):
    """And kept; for another address of the pages it is of no use."""
    provider = await discover(http, protected.url)
    first = await client_for(http, vault, "safe", provider, "http://127.0.0.1:5/callback")
    again = await client_for(http, vault, "safe", provider, "http://127.0.0.1:5/callback")
    assert first.client_id == again.client_id == "c1"
    assert first.client_secret == again.client_secret
    other = await client_for(http, vault, "safe", provider, "http://127.0.0.1:6/callback")
    assert other.client_id == "c2"
    assert protected.provider.clients["c1"]["redirect_uris"] == ["http://127.0.0.1:5/callback"]


async def test_where_it_is_not_offered_an_id_must_be_declared(protected, http, vault):
    """The message names the keys."""
    protected.provider.registers = False
    provider = await discover(http, protected.url)
    with pytest.raises(AuthFault, match="set 'client_id' and 'issuer'"):
        await client_for(http, vault, "safe", provider, "http://127.0.0.1:5/callback")


async def test_a_refused_registration_has_no_text_of_others(protected, http, vault):
    """The endpoint answers with a fault."""
    provider = await discover(http, protected.url)
    with pytest.raises(AuthFault, match=r"refuses to register a client$"):
        await client_for(http, vault, "safe", provider, "http://127.0.0.1:5/refused-word")
    assert vault.client("safe") is None
