"""A server's tools as its view shows them."""

from __future__ import annotations

import pytest

from searchbus_attach.declare.views import parse_view
from searchbus_attach.definitions.describe import describe
from searchbus_attach.definitions.viewing import shown_tools

from ..conftest import plain

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "root": {"type": "string"}},
    "required": ["path", "root"],
    "additionalProperties": False,
}


def listed(*names, **more):
    return [{"name": name, "description": name, "inputSchema": SCHEMA, **more} for name in names]


def shown(keys, tools, **server):
    found = plain(**server)
    return shown_tools(found, parse_view("plain", keys), describe(found, tools).descriptors)


def test_without_a_view_tools_are_as_they_were():
    """But for what the server's own keys say."""
    tools = listed("read")
    (one,) = shown({}, tools, required_roles=["FILES"], call_timeout_s=7).tools.values()
    assert (one.descriptor.required_roles, one.descriptor.timeout_ms) == (("FILES",), 7000)
    assert one.descriptor.input_schema == SCHEMA
    assert (one.name, one.arguments, one.descriptor.costly) == ("read", {}, False)


def test_everything_of_a_definition_can_be_replaced():
    """Roles and hints come together; of the other fields the nearest counts."""
    keys = {
        "required_roles": ["TEAM"], "costly": True, "timeout_s": 20,
        "tools": {"read": {
            "name": "open", "title": "Open", "description": "Opens.", "costly": False,
            "annotations": {"openWorldHint": False}, "required_roles": ["READER"], "timeout_s": 3,
        }},
    }  # fmt: skip
    tools = listed("read", annotations={"readOnlyHint": True, "openWorldHint": True})
    found = shown(keys, [*tools, *listed("stat")], required_roles=["FILES"])
    one, other = found.tools["open"].descriptor, found.tools["stat"].descriptor
    assert (one.qualified_name, one.title, one.description) == ("plain__open", "Open", "Opens.")
    assert (one.costly, one.timeout_ms) == (False, 3000)
    assert one.required_roles == ("FILES", "TEAM", "READER")
    assert (one.annotations.read_only_hint, one.annotations.open_world_hint) == (True, False)
    assert (other.costly, other.timeout_ms, other.required_roles) == (
        True,
        20000,
        ("FILES", "TEAM"),
    )
    assert found.listed_as == {"read": "plain__open", "stat": "plain__stat"}
    assert found.problems == ()


def test_fixed_arguments_are_hidden():
    """From the properties, and from what is required; also in alternatives."""
    schema = {**SCHEMA, "anyOf": [{"required": ["root"]}, {"required": ["path"]}]}
    tools = [{"name": "read", "description": "r", "inputSchema": schema}]
    keys = {"tools": {"read": {"arguments": {"root": "/srv"}}}}
    one = shown(keys, tools).tools["read"]
    assert one.arguments == {"root": "/srv"}
    assert one.descriptor.input_schema == {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
        "anyOf": [{"required": []}, {"required": ["path"]}],
    }


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"tools": {"raed": {}}}, "There is no tool raed. Did you mean 'read'?"),
        (
            {"tools": {"read": {"arguments": {"rot": 1}}}},
            "read has no argument rot. Did you mean 'root'?",
        ),
        (
            {"tools": {"read": {"name": "stat"}}},
            "read is not listed: another tool has the name stat.",
        ),
    ],
)
def test_what_has_no_effect_is_a_problem_for_the_operator(keys, problem):
    """The server may have renamed its tool. A tool that keeps its name keeps it."""
    found = shown(keys, listed("read", "stat"))
    assert found.problems == (problem,)
    assert found.tools["stat"].name == "stat"


def test_before_the_first_list_nothing_is_a_problem():
    """The server has not been asked."""
    assert shown({"tools": {"read": {}}}, []).problems == ()


@pytest.mark.parametrize(
    ("hints", "view", "may_repeat"),
    [
        ({"readOnlyHint": True}, {}, True),
        ({"idempotentHint": True}, {}, True),
        ({"readOnlyHint": False}, {}, False),
        ({}, {}, False),
        ({"idempotentHint": True}, {"idempotentHint": False}, False),
        ({}, {"readOnlyHint": True}, True),
    ],
)
def test_a_call_may_be_repeated_where_the_listed_tool_says_so(hints, view, may_repeat):
    """An operator may know better than the server."""
    keys = {"tools": {"read": {"annotations": view}}}
    (one,) = shown(keys, listed("read", annotations=hints)).tools.values()
    assert one.may_repeat is may_repeat


def test_patterns_that_match_no_tool_are_problems():
    """Not those for a tool that waits for approval, which the view is for, too."""
    found = plain()
    view = parse_view("plain", {"deny": ["extr", "later"], "tools": {"later": {"name": "soon"}}})
    tools = describe(found, listed("extra")).descriptors
    (problem,) = shown_tools(found, view, tools, held=["later"]).problems
    assert problem == "'extr' of 'deny' matches no tool. Did you mean 'extra'?"
    assert shown_tools(found, view, []).problems == ()
