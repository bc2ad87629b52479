"""The table `auth`."""

from __future__ import annotations

from typing import get_args

import pytest

from searchbus_attach.declare.auth_methods import METHODS, Auth, MethodName
from searchbus_attach.declare.servers import parse_server
from searchbus_attach.errors import ServerDeclarationError

URL = "https://mcp.example.org/mcp"
GOOD = {"type": "client_credentials", "issuer": "https://x", "client_id": "a", "client_secret": "b"}


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        ({"type": "password"}, "auth.type has a value that is not allowed"),
        ({**GOOD, "client_secrets": "b"}, "Did you mean 'client_secret'"),
        ({**GOOD, "issuer": ""}, "needs 'issuer'"),
        ({**GOOD, "issuer": "login.example.org"}, "must start with"),
        ({**GOOD, "issuer": "https://x?y"}, "no query"),
        ({**GOOD, "client_secret": ""}, "needs 'client_secret'"),
        ({"type": "token_exchange", "client_id": "a"}, "needs 'issuer'"),
        ({"type": "authorization_code", "client_secret": "b"}, "that issuer only"),
    ],
)
def test_a_wrong_table_is_refused(auth, problem):
    """With the key's name."""
    with pytest.raises(ServerDeclarationError, match=problem):
        parse_server("safe", {"url": URL, "auth": auth})


def test_it_is_for_urls_and_instead_of_a_header():
    """One Authorization only."""
    with pytest.raises(ServerDeclarationError, match="'auth' is for a URL"):
        parse_server("safe", {"command": "x", "auth": GOOD})
    with pytest.raises(ServerDeclarationError, match="give either"):
        parse_server("safe", {"url": URL, "headers": {"authorization": "x"}, "auth": GOOD})
    assert parse_server("safe", {"url": URL, "auth": GOOD}).auth == Auth(**GOOD)


def test_token_exchange_is_per_user():
    """Otherwise all callers would be one."""
    auth = {"type": "token_exchange", "issuer": "https://x", "client_id": "a"}
    with pytest.raises(ServerDeclarationError, match="per_user"):
        parse_server("safe", {"url": URL, "auth": auth})
    assert parse_server("safe", {"url": URL, "auth": auth, "state": "per_user"}).auth is not None


def test_variables_are_replaced():
    """The secret is not in the file then."""
    server = parse_server("safe", {"url": URL, "auth": {**GOOD, "client_secret": "${S}"}})
    assert server.expanded({"S": "word"}.get).auth.client_secret == "word"


def test_every_method_has_a_row():
    """Of the table only."""
    assert tuple(METHODS) == get_args(MethodName)
