"""Offers: what is checked again, and what stays as it was."""

from __future__ import annotations

import pytest
from msgspec import structs

from searchbus_bus.catalog.services import Listing
from searchbus_contracts import (
    Catalog,
    PromptDescriptor,
    PromptMessage,
    ResourceDescriptor,
    ResourceTemplate,
    TextContent,
    ToolDescriptor,
)
from searchbus_edge.catalog import offers as module
from searchbus_edge.catalog.offers import Offers
from searchbus_runtime.pins import Held, Reviewed


def tool(name: str, toolset: str = "office", **options) -> ToolDescriptor:
    options = {"input_schema": {"type": "object"}, "description": "d"} | options
    return ToolDescriptor(name=name, toolset=toolset, **options)


def accept(toolset, service, tools) -> Reviewed:
    return Reviewed(tuple(tools))


def follow(before: Offers, *catalogs: Catalog, review=accept, pins=0, **owners: str) -> Offers:
    owners = owners or {t: c.service for c in catalogs for t in c.toolsets}
    listing = Listing(before.listing.generation + 1, catalogs, owners)
    return before.following(listing, pins, review, left_out=("lazy",))


@pytest.fixture
def checked(monkeypatch) -> list[str]:
    """The names of the tools whose schemas were checked."""
    names: list[str] = []
    check = module.has_valid_schema

    def noting(descriptor: ToolDescriptor) -> bool:
        names.append(descriptor.name)
        return check(descriptor)

    monkeypatch.setattr(module, "has_valid_schema", noting)
    return names


OFFICE = Catalog(service="office", tools=(tool("send"), tool("plan"), tool("tell", "desk")))
ATLAS = Catalog(service="atlas", tools=(tool("map", "atlas"),))


def test_an_offer_has_everything_of_its_toolset():
    """And nothing of another one."""
    catalog = Catalog(
        service="office",
        tools=(tool("send"), tool("tell", "desk")),
        prompts=(
            PromptDescriptor(
                name="p", toolset="office",
                messages=(PromptMessage(role="user", content=TextContent(text="x")),),
            ),
        ),
        resources=(ResourceDescriptor(uri="x:1", name="one", toolset="desk"),),
        resource_templates=(ResourceTemplate(uri_template="x:{n}", name="n", toolset="office"),),
    )  # fmt: skip
    found = follow(Offers(), catalog).of
    office, desk = found["office"], found["desk"]
    assert (list(office.tools), list(desk.tools)) == (["send"], ["tell"])
    assert office.tool_of["office", "send"] is office.tools["send"]
    assert (len(office.prompts), len(desk.prompts)) == (1, 0)
    assert (len(office.resources), len(desk.resources)) == (0, 1)
    ((pattern, _),) = office.templates
    assert pattern.fullmatch("x:7")


def test_only_what_is_new_is_checked(checked):
    """A changed tool, not its toolset; an unchanged catalogue stays as it is."""
    first = follow(Offers(), OFFICE, ATLAS)
    assert sorted(checked) == ["map", "plan", "send", "tell"]
    checked.clear()
    changed = structs.replace(OFFICE, tools=(OFFICE.tools[0], tool("plan"), OFFICE.tools[2]))
    second = follow(first, changed, ATLAS)
    assert checked == ["plan"]
    assert second.of["atlas"] is first.of["atlas"]
    assert second.of["office"].tools["send"] is first.of["office"].tools["send"]
    assert second.of["office"].tools["plan"] is not first.of["office"].tools["plan"]


def test_owner_of_a_toolset_decides(checked):
    """Nobody else's tools are looked at, nor those that the edge lists itself."""
    other = Catalog(service="other", tools=(tool("send"), tool("find", "lazy")))
    found = follow(Offers(), OFFICE, other, office="office", lazy="other")
    assert (list(found.of), found.of["office"].service) == (["office"], "office")
    checked.clear()
    found = follow(found, OFFICE, other, office="other")
    assert (checked, found.of["office"].service) == (["send"], "other")


def test_pins_are_applied_anew_when_they_change(checked):
    """Then a held tool is marked; its schema was checked before."""
    first = follow(Offers(), OFFICE, pins=1)
    checked.clear()

    def hold(toolset, service, tools) -> Reviewed:
        return Reviewed(tuple(tools), {"send": Held(tools[0], "0" * 64, ("its title changed",))})

    second = follow(first, OFFICE, pins=2, review=hold, office="office")
    assert second.of["office"].tools["send"].held == "its title changed"
    assert second.of["office"].tools["plan"] is first.of["office"].tools["plan"]
    assert checked == []


def test_what_cannot_be_listed_is_logged(caplog):
    """The others of the toolset stay."""
    bad = tool("odd", input_schema={"type": "object", "properties": {"a": {"type": "nonsense"}}})
    twice = tool("send", description="Another.")
    old = tool(
        "old", input_schema={"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}
    )
    catalog = Catalog(service="office", tools=(bad, tool("send"), twice, old))
    found = follow(Offers(), catalog).of["office"].tools
    assert {name: listed.descriptor.description for name, listed in found.items()} == {
        "send": "d", "old": "d",
    }  # fmt: skip
    assert "odd of toolset office is not listed: invalid input schema" in caplog.text
    assert "send of toolset office is listed once" in caplog.text
    assert "the schema of old of toolset office is of dialect" in caplog.text
