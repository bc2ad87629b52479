"""Names fit the bus, and tell tools apart."""

from __future__ import annotations

import pytest

from searchbus_attach.definitions.names import qualified_name, token_name
from searchbus_contracts import is_token


def test_a_name_of_the_bus_stays():
    """Also with the most characters."""
    assert token_name("read_file") == "read_file"
    assert token_name("x" * 64) == "x" * 64


@pytest.mark.parametrize("name", ["a.b", "files/read", "größe", "x" * 65, "a b", "💥"])
def test_another_name_becomes_one(name):
    """The same each time."""
    assert is_token(token_name(name))
    assert token_name(name) == token_name(name)


def test_names_that_would_be_equal_stay_apart():
    """By the hash of the whole name."""
    assert len({token_name(name) for name in ("a.b", "a/b", "a b")}) == 3
    assert token_name("x" * 70 + "1") != token_name("x" * 70 + "2")


def test_the_server_comes_first():
    """Up to 64 characters whole, then with a hash at the end."""
    assert qualified_name("files", "read") == "files__read"
    longest = qualified_name("s" * 20, "t" * 42)
    assert (len(longest), longest) == (64, "s" * 20 + "__" + "t" * 42)
    longer = qualified_name("s" * 20, "t" * 43)
    assert len(longer) == 64
    assert longer.startswith("s" * 20 + "__" + "t" * 20)
    assert longer != qualified_name("s" * 20, "t" * 42 + "u")
