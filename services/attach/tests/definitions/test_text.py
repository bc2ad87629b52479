"""Text of servers shows what a person sees."""

from __future__ import annotations

import pytest

from searchbus_attach.definitions.text import (
    clean,
    clean_line,
    hides_text,
    own_uri,
    qualified_name,
    token_name,
    wrapped_link,
    wrapped_uri,
)
from searchbus_contracts import is_token
from searchbus_contracts.resources import UriTemplate


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("Reads a file.\n\n- one\tlist", "Reads a file.\n\n- one\tlist"),
        ("\x1b[2Jred\x07", "[2Jred"),
        ("right\u202eto left", "rightto left"),
        ("zero\u200bwidth\u2060", "zerowidth"),
        ("tag\U000e0041\U000e0042ged", "tagged"),
        ("hidden\ufe0f\U000e0150", "hidden"),
        ("filled\u3164", "filled"),
        ("a line\u2028another", "a lineanother"),
        ("größe 日本語 é", "größe 日本語 é"),
    ],
)
def test_what_nobody_sees_is_taken_out(given, seen):
    """Letters of every script stay."""
    assert clean(given, 1000) == seen


def test_a_long_text_is_cut():
    """With a sign that something is missing."""
    assert clean("x" * 30, 10) == "x" * 9 + "…"
    assert clean("x" * 10, 10) == "x" * 10
    assert clean("x" + "\u200b" * 30 + "hidden", 10) == "x…"


def test_one_line():
    """Of several."""
    assert clean_line(" a\n b\tc ", 100) == "a b c"


@pytest.mark.parametrize(
    ("text", "hides"),
    [
        ("plain", False),
        ("größe 日本語", False),
        ("👩\u200d👩\u200d👧\u200d👦 ❤\ufe0f", False),
        ("\u200eשלום\u200e", False),
        ("red" + "".join(chr(0xE0000 + ord(c)) for c in "delete all"), True),
        ("red" + "".join(chr(0xE0100 + ord(c)) for c in "delete all"), True),
        ("\u200b\u2060" * 8, True),
    ],
)
def test_hidden_text_is_found(text, hides):
    """A mark of direction or an emoji is not one."""
    assert hides_text(text) is hides


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


URIS = ["demo://resource/1", "file:///a/b%20c?d=e#f", "mem:x", "https://example.org/"]


@pytest.mark.parametrize("uri", URIS)
def test_a_uri_comes_back_as_it_was(uri):
    """Also one with a query, and one of the web."""
    assert own_uri("far", wrapped_uri("far", uri)) == uri


@pytest.mark.parametrize(
    "uri", ["demo://resource/1", "searchbus://attach/near/a:b", "searchbus://attach/far/", ""]
)
def test_what_is_not_of_the_server_is_none(uri):
    """Nor is an empty one."""
    assert own_uri("far", uri) is None


def test_an_expanded_template_is_the_address_of_what_the_own_template_gives():
    """So a client can expand either."""
    template = "repo://{owner}/{name}/contents{/path*}"
    expanded = "repo://ada/engine/contents/a/b.txt"
    assert UriTemplate(wrapped_uri("git", template)).matches(wrapped_uri("git", expanded))
    assert UriTemplate(template).matches(expanded)


@pytest.mark.parametrize("uri", URIS)
def test_no_address_is_one_of_a_document(uri):
    """`searchbus://<collection>/<id>`, of the service retrieval."""
    assert not UriTemplate("searchbus://{collection}/{id}").matches(wrapped_uri("far", uri))


def test_a_link_to_the_web_stays():
    """Clients fetch it themselves. What is not a URI is wrapped like any other."""
    assert wrapped_link("far", "https://example.org/x") == "https://example.org/x"
    assert wrapped_link("far", "note:///1") == "searchbus://attach/far/note:///1"
    assert wrapped_link("far", "http://[x") == "searchbus://attach/far/http://[x"
