"""Views as they are declared."""

from __future__ import annotations

import pytest

from searchbus_attach.declare.views import DeclaredView, parse_selection, parse_view
from searchbus_attach.errors import ServerDeclarationError


def test_a_server_without_a_view_shows_everything():
    """That is the view without keys."""
    view = parse_view("files", {})
    assert view == DeclaredView()
    assert view.allows("anything")


def test_deny_counts_more_than_allow():
    """Both are patterns of a shell; case counts."""
    view = parse_view("files", {"allow": ["read_*", "stat"], "deny": ["*_secret"]})
    assert [view.allows(name) for name in ("read_file", "stat", "read_secret", "write", "Stat")] == [
        True, True, False, False, False
    ]  # fmt: skip


def test_a_tool_has_keys_of_its_own():
    """Hints have the names of MCP."""
    tool = {"name": "read", "annotations": {"readOnlyHint": True}, "arguments": {"depth": 3}}
    view = parse_view("files", {"tools": {"read_file": tool}})
    shown = view.tools["read_file"]
    assert (shown.name, shown.arguments, shown.costly) == ("read", {"depth": 3}, None)
    assert shown.annotations.read_only_hint


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"alow": []}, "files.view: there is no key 'alow'. Did you mean 'allow'?"),
        ({"tools": {"a": {"titel": "x"}}}, "files.view.tools.a: .* Did you mean 'title'?"),
        (
            {"tools": {"a": {"annotations": {"readonlyHint": True}}}},
            "files.view.tools.a.annotations: .* Did you mean 'readOnlyHint'?",
        ),
        ({"tools": {"a": 3}}, "tools"),
        ({"tools": {"a": {"name": "x y"}}}, "'name' must be"),
        ({"tools": {"a": {"timeout_s": 0}}}, "timeout_s"),
        ({"allow": "read_*"}, "allow"),
        (3, "must be a table"),
    ],
)
def test_what_is_wrong_in_a_view_is_named(keys, message):
    """With the nearest key."""
    with pytest.raises(ServerDeclarationError, match=message):
        parse_view("files", keys)


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("reading", {}, "allow"),
        ("reading", {"allow": []}, "allow"),
        ("reading", {"alow": ["x"]}, "Did you mean 'allow'?"),
        ("reading", {"name": "x"}, "there is no key 'name'"),
        ("re ading", {"allow": ["x"]}, "cannot be a name"),
        ("reading", 3, "must be a table"),
    ],
)
def test_what_is_wrong_in_a_selection_is_named(name, keys, message):
    """A selection of nothing is one of these."""
    with pytest.raises(ServerDeclarationError, match=message):
        parse_selection(name, keys)


def test_a_selection_takes_names_as_on_mcp():
    """Of any server."""
    selection = parse_selection("reading", {"allow": ["files__*", "far__find"], "deny": ["*__rm"]})
    names = ("files__read", "far__find", "far__get", "files__rm")
    assert [selection.allows(name) for name in names] == [True, True, False, False]
