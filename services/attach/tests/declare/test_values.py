"""Wrong values are named in the words of the file."""

from __future__ import annotations

import pytest

from searchbus_attach.declare.servers import DeclarationFault, parse_server
from searchbus_attach.declare.views import parse_selection, parse_view


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"policy": "holdd"}, "'policy' is warn, hold or accept. Did you mean 'hold'?"),
        ({"policy": "zzz"}, "'policy' is warn, hold or accept"),
        ({"state": 3}, "'state' is stateless, stateful or per_user"),
        ({"args": "-y"}, "'args' must be a list of texts"),
        (
            {"args": ["a", 80]},
            "'args' must be a list of texts; number 2 is not one; put it into quotes",
        ),
        ({"args": [["a"]]}, "'args' must be a list of texts; number 1 is not one"),
        ({"env": {"A": "a", "PORT": 80}}, "'env.PORT' must be a text; put it into quotes"),
        ({"env": ["A=a"]}, "'env' must be a table"),
        ({"command": ["x"]}, "'command' must be a text"),
        ({"enabled": "no"}, "'enabled' must be true or false, without quotes"),
        ({"max_callers": 0}, "'max_callers' must be a whole number, at least 1 and at most 10000"),
        (
            {"idle_s": "5"},
            "'idle_s' must be a number, at least 0 and at most 604800, without quotes",
        ),
        (
            {"memory_mib": 1},
            "'memory_mib' must be a whole number, at least 16 and at most 1048576",
        ),
        ({"call_timeout_s": 0}, "'call_timeout_s' must be a number, more than 0 and at most 600"),
    ],
)
def test_a_wrong_value_of_a_server_is_named(keys, message):
    """With what is right."""
    with pytest.raises(DeclarationFault) as error:
        parse_server("a", {"command": "x", **keys})
    assert str(error.value) == f"a: {message}"


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        ({}, "'auth.type' is missing; set it"),
        ("none", "'auth' must be a table"),
        (
            {"type": "oauth"},
            "'auth.type' is client_credentials, token_exchange or authorization_code",
        ),
        (
            {"type": "authorization_code", "issuer": "x" * 2001},
            "'auth.issuer' must be a text of at most 2000 characters",
        ),
    ],
)
def test_a_wrong_value_of_a_table_in_a_server_is_named(auth, message):
    """By the names of both."""
    with pytest.raises(DeclarationFault) as error:
        parse_server("a", {"url": "https://x.example", "auth": auth})
    assert str(error.value) == f"a: {message}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"allow": "read_*"}, "'allow' must be a list of texts of 1 to 128 characters"),
        ({"costly": 1}, "'costly' must be true or false, without quotes"),
        (
            {"tools": {"t": {"title": 5}}},
            "'tools.t.title' must be a text of at most 200 characters; put it into quotes",
        ),
        (
            {"tools": {"t": {"annotations": {"readOnlyHint": "yes"}}}},
            "'tools.t.annotations.readOnlyHint' must be true or false, without quotes",
        ),
    ],
)
def test_a_wrong_value_of_a_view_is_named(keys, message):
    """As for servers."""
    with pytest.raises(DeclarationFault) as error:
        parse_view("a", keys)
    assert str(error.value) == f"a.view: {message}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "'allow' is missing; set it"),
        ({"allow": []}, "'allow' must be a list of texts of 1 to 128 characters, with one or more"),
    ],
)
def test_a_wrong_value_of_a_selection_is_named(keys, message):
    """As for servers."""
    with pytest.raises(DeclarationFault) as error:
        parse_selection("reading", keys)
    assert str(error.value) == f"views.reading: {message}"
