"""A server's tools as its view shows them."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from searchbus_attach.declare.views import DeclaredView, parse_view
from searchbus_attach.definitions import viewing as fixed
from searchbus_attach.definitions.describe import describe
from searchbus_attach.definitions.schemas import modern_schema
from searchbus_attach.definitions.viewing import pattern_problems, shown_tools, without_arguments

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
    assert one.descriptor.may_repeat is may_repeat


def test_patterns_that_match_no_tool_are_problems():
    """Not those for a tool that waits for approval, which the view is for, too."""
    found = plain()
    view = parse_view("plain", {"deny": ["extr", "later"], "tools": {"later": {"name": "soon"}}})
    tools = describe(found, listed("extra")).descriptors
    (problem,) = shown_tools(found, view, tools, held=["later"]).problems
    assert problem == "'extr' of 'deny' matches no tool. Did you mean 'extra'?"
    assert shown_tools(found, view, []).problems == ()


BASE = {"type": "object", "properties": {"root": {}, "path": {}}, "required": ["root"]}


def accepts(schema, value) -> bool:
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    "schema",
    [
        BASE,
        {"allOf": [BASE]},
        {"$ref": "#/$defs/base", "$defs": {"base": BASE}},
        {"anyOf": [{"$ref": "#/definitions/base"}], "definitions": {"base": BASE}},
        {"$ref": "#/$defs/more", "$defs": {
            "more": {"allOf": [{"$ref": "#/$defs/base"}]}, "base": BASE}},
        {"dependentRequired": {"path": ["root"], "root": ["path"]}},
        {"dependentSchemas": {"path": BASE, "root": {"required": ["path"]}}},
        {"if": {"required": ["path"]}, "then": {"required": ["root"]}},
        {"if": {"properties": {"root": {"const": 1}}}, "then": {"required": ["x"]}},
    ],
)  # fmt: skip
def test_a_fixed_argument_is_neither_needed_nor_shown(schema):
    """Wherever the server's schema speaks of it."""
    given = modern_schema(schema)
    before = json.dumps(given)
    found = without_arguments(given, {"root"})
    assert accepts(found, {"path": "x"})
    assert "root" not in json.dumps(found)
    assert json.dumps(given) == before, "the approved definition is not changed"


def test_what_is_said_of_other_arguments_counts():
    """In definitions and conditions too."""
    given = modern_schema({
        "allOf": [{"$ref": "#/$defs/base"}], "$defs": {"base": {**BASE, "required": ["path"]}},
        "if": {"required": ["a"]}, "then": {"required": ["b"]},
    })  # fmt: skip
    found = without_arguments(given, {"root"})
    assert not accepts(found, {})
    assert not accepts(found, {"path": "x", "a": 1})
    assert accepts(found, {"path": "x", "a": 1, "b": 1})


def test_conditions_of_conditions_are_looked_at_once(monkeypatch):
    """Sixty levels, which a schema may have, took longer than anybody lives."""
    levels, looks = 12, []
    given = {"required": ["path"]}
    for _ in range(levels):
        given = {"if": given, "then": {"minProperties": 1}}
    apply = fixed._Hiding.apply
    monkeypatch.setattr(
        fixed._Hiding, "apply", lambda self, part: looks.append(part) or apply(self, part)
    )
    found = without_arguments(modern_schema(given), {"root"})
    assert found == modern_schema(given)
    assert len(looks) <= 3 * (levels + 1)


def test_a_definition_that_is_often_referred_to_makes_no_large_schema():
    """One of 200 KiB became 28 MiB, and the catalogue of all servers is limited."""
    base = {"properties": {f"p{n}": {"description": "x" * 2000} for n in range(100)}}
    given = modern_schema({"allOf": [{"$ref": "#/$defs/base"}] * 140, "$defs": {"base": base}})
    assert without_arguments(given, {"root"}) == {"type": "object"}
    twice = modern_schema({"allOf": [{"$ref": "#/$defs/base"}] * 2, "$defs": {"base": base}})
    assert "p99" in json.dumps(without_arguments(twice, {"root"}))


def test_a_definition_that_others_refer_to_stays():
    """As the type of another argument."""
    given = modern_schema({
        "$ref": "#/$defs/base",
        "properties": {"child": {"$ref": "#/$defs/base"}},
        "$defs": {"base": BASE},
    })  # fmt: skip
    found = without_arguments(given, {"root"})
    assert accepts(found, {"child": {"root": 1}})
    assert not accepts(found, {"child": {}})


def test_nothing_fixed_changes_nothing():
    """The very same schema."""
    assert without_arguments(BASE, {}) is BASE


TOOLS = ["greet", "extra"]
ON_MCP = ["time__now", "time__zones", "files__read"]


def test_each_pattern_is_looked_at_by_itself():
    """One that matches is not named; of `deny`, too, which hides nothing then."""
    found = pattern_problems(DeclaredView(allow=("gree*", "nosuch*"), deny=("extr",)), TOOLS)
    assert found == (
        "'nosuch*' of 'allow' matches no tool. Known: greet, extra.",
        "'extr' of 'deny' matches no tool. Did you mean 'extra'?",
    )


def test_what_matches_is_no_problem():
    """Nor is a view without patterns, and a tool that two patterns match."""
    assert pattern_problems(DeclaredView(), TOOLS) == ()
    assert (
        pattern_problems(DeclaredView(allow=("*",), deny=("e*", "extra", "[gx]reet")), TOOLS) == ()
    )


def test_a_server_can_be_the_nearest_name():
    """A pattern often names one."""
    (found,) = pattern_problems(
        DeclaredView(allow=("time__*", "tim__*")), ON_MCP, servers=["files", "time"]
    )
    assert found == "'tim__*' of 'allow' matches no tool. Did you mean 'time__*'?"


@pytest.mark.parametrize(
    ("pattern", "named"),
    [("far__x", False), ("f*", False), ("*__x", False), ("[f]ar__x", False), ("tim__*", True)],
)
def test_what_may_match_a_tool_that_is_not_known_yet_is_left_out(pattern, named):
    """A server that starts is no reason to doubt its patterns."""
    found = pattern_problems(
        DeclaredView(allow=(pattern,)), ["time__now"], servers=["time"], unknown=["far"]
    )
    assert bool(found) is named
