"""Views: what callers share a list, and which toolsets list or search resources for a caller."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts import Actor, PromptDescriptor, ResourceTemplate, ToolDescriptor
from searchbus_contracts.headers import bare_role
from searchbus_edge.auth.signing import Cursors
from searchbus_edge.catalog.render import Pages
from searchbus_edge.catalog.view import ListedTool, MadeOf, View, validator


def template(toolset: str, **options):
    found = ResourceTemplate(
        uri_template=f"{toolset}://{{a}}", name="a", toolset=toolset, **options
    )
    return re.compile(""), found


def test_toolsets_are_named_once_in_order_with_their_service(reader):
    """Those that the caller may use."""
    view = View(
        (0, True),
        services={"b": "service-b", "a": "service-a"},
        templates=(
            template("b", lists=True),
            template("b", lists=True, searches=True),
            template("a", searches=True),
            template("a", lists=True, required_roles=("NOBODY",)),
        ),
    )
    assert view.toolsets_with(reader, lambda template: template.lists) == [("b", "service-b")]
    found = view.toolsets_with(reader, lambda template: template.searches)
    assert found == [("b", "service-b"), ("a", "service-a")]


def test_view_is_immutable():
    """Requests keep the one that they started with."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        View((0, True)).version = (1, True)


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/x", "file:///etc/hostname"])
def test_a_validator_fetches_nothing(reference):
    """A schema comes from a worker."""
    with pytest.raises(ValueError, match="Retrieval is disabled"):
        validator({"type": "object", "$ref": reference})


def test_pattern_has_few_steps_back_for_each_text():
    """A text that needs more is not valid: with thousands of them a call would hold the loop."""
    checked = validator({"items": {"pattern": r"^(?:(a|aa)+\1c|a*)$"}})
    assert checked.is_valid(["a" * 5])
    assert not checked.is_valid(["a" * 20])
    ordinary = validator({"items": {"pattern": r"^(?=.*[a-z])(?!.*--).{1,500}$"}})
    assert ordinary.is_valid(["aB" * 200])


ROLES = ("ADMIN", "ROLE_ADMIN", "EDITOR", "READER", "ROLE_READER")
INCLUDED = {"ADMIN": {"EDITOR", "READER"}, "EDITOR": {"READER"}}
groups = st.lists(st.sampled_from(ROLES), max_size=2, unique=True).map(tuple)
actors = st.lists(st.sampled_from((*ROLES, "*")), max_size=3).map(lambda r: Actor(roles=tuple(r)))


def missing_by_rank(actor: Actor, required: tuple[str, ...]) -> str | None:
    """Another rule: higher roles include lower ones."""
    held = {bare_role(role) for role in actor.roles}
    held |= set().union(*(INCLUDED.get(role, ()) for role in held))
    return next((r for r in required if "*" not in held and bare_role(r) not in held), None)


def lists(view: View, actor: Actor) -> list[object]:
    """What the three lists show to an actor."""
    pages = Pages(Cursors(b"k"), page_size=100)
    return [
        list_page(actor, view, None) for list_page in (pages.tools, pages.prompts, pages.templates)
    ]


def view_of(tools, prompts, templates) -> View:
    """A view with an item for each group of roles; every other template is not listed."""
    schema = {"type": "object"}
    made = [
        ToolDescriptor(
            name=f"t{n}", toolset="x", description="x", input_schema=schema, required_roles=roles
        )
        for n, roles in enumerate(tools)
    ]
    described = [
        PromptDescriptor(name=f"p{n}", toolset="x", description="x", required_roles=roles)
        for n, roles in enumerate(prompts)
    ]
    families = [
        template(f"r{n}", required_roles=roles, listed=n % 2 == 0)
        for n, roles in enumerate(templates)
    ]
    return View(
        (0, True, 0),
        tools={tool.name: ListedTool(tool.name, tool, "x") for tool in made},
        prompts={prompt.name: prompt for prompt in described},
        templates=tuple(families),
    )


@pytest.mark.parametrize("rule", [None, missing_by_rank], ids=["as it is", "by rank"])
@given(tools=st.lists(groups), prompts=st.lists(groups), templates=st.lists(groups),
       one=actors, other=actors)  # fmt: skip
def test_actors_share_kept_pages_exactly_where_they_see_the_same(
    rule, tools, prompts, templates, one, other
):
    """Whatever the one rule says: no page of one caller is served to another who sees less."""
    view = view_of(tools, prompts, templates)
    with pytest.MonkeyPatch.context() as patch:
        if rule is not None:
            patch.setattr(Actor, "missing", rule)
        equal = view.access(one) == view.access(other)
        assert equal is (lists(view, one) == lists(view, other))


def test_nothing_is_kept_of_a_version_that_has_passed():
    """Pages of tools take much memory, and workers that come and go make many versions."""
    first, second = View((1, True, 0)), View((2, True, 0))
    pages = MadeOf(2)
    pages.version(first)["a"] = "page"
    assert pages.version(View((1, True, 0))) == {"a": "page"}
    assert pages.version(second) == {}
    assert pages.version(first) == {}
    pages.version(first).update({"a": 1, "b": 2, "c": 3})
    assert pages.version(first) == {}
