"""The registry: names, order, validators, own tools, changes."""

from __future__ import annotations

import dataclasses
import threading

import pytest
from msgspec import structs

from searchbus_bus import Directory, Worker
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
from searchbus_contracts.resources import UriTemplate
from searchbus_edge.catalog import registry as module
from searchbus_edge.catalog.registry import Offers, Registry
from searchbus_runtime.pins import Held, Reviewed
from searchbus_testing import known

from ..conftest import dictionary_worker


def names(registry, toolset=None):
    return list(registry.view(toolset).tools)


async def test_name_belongs_to_the_first_toolset_of_the_order(directory):
    """A later holder is listed with its toolset; alone it has its own name."""
    first = Registry(directory, ("dictionary",))
    assert first.view(None).tools["look_up"].service == "dictionary"
    assert first.view(None).tools["atlas_look_up"].service == "atlas"
    second = Registry(directory, ("atlas",))
    assert second.view(None).tools["look_up"].service == "atlas"
    assert names(second)[0] == "look_up"
    assert names(first, "atlas") == ["look_up"]
    assert first.toolsets == ["dictionary", "atlas"]


async def test_tool_with_a_bad_schema_is_left_out(registry, caplog):
    """It harms no other, and the log names it."""
    assert "odd" not in registry.view("atlas").tools
    assert "odd of toolset atlas is not listed: invalid input schema" in caplog.text


async def test_view_has_prompts_resources_and_templates(registry):
    """With the service of each toolset."""
    view = registry.view("dictionary")
    assert list(view.prompts) == ["define"]
    assert list(view.resources) == ["dict://all"]
    ((matcher, template),) = view.templates
    assert template.name == "word"
    assert matcher.matches("dict://word/bus")
    assert view.services == {"dictionary": "dictionary", "atlas": "atlas"}
    assert registry.view("atlas").prompts == {}


async def test_a_tool_that_is_aside_is_on_its_own_endpoint_only(directory, broker, registry):
    """Beside the others it would be there twice."""
    worker = Worker("zoo")
    say = registry.view(None).tools["say"].descriptor
    for name, aside in (("roar", True), ("hiss", False)):
        worker.add_tool(structs.replace(say, name=name, toolset="zoo", aside=aside), None)
    await broker.connect(name="zoo").serve(worker)
    await known(directory, "zoo")
    assert names(registry, "zoo") == ["hiss", "roar"]
    assert "hiss" in names(registry)
    assert "roar" not in names(registry)
    assert ("zoo", "roar") not in registry.view(None).tool_of


async def test_view_is_kept_until_something_changes(registry, directory, broker):
    """And built anew with a new service."""
    before = registry.view(None)
    assert registry.view(None) is before
    worker = Worker("zoo")
    other = before.tools["say"].descriptor
    worker.add_tool(structs.replace(other, toolset="zoo"), None)
    await broker.connect(name="zoo").serve(worker)
    await known(directory, "zoo")
    assert "zoo_say" in registry.view(None).tools
    assert "zoo_say" not in before.tools
    assert registry.toolsets == ["dictionary", "atlas", "zoo"]


async def test_nothing_is_kept_of_a_toolset_that_is_gone(registry, directory):
    """Its tools may be thousands."""
    assert registry.view("atlas").tools
    directory.listing = dataclasses.replace(
        directory.listing, generation=directory.generation + 1, owners={"dictionary": "dictionary"}
    )
    await registry.prepare(directory.listing)
    registry.view(None)
    assert set(registry._views) == {None}
    assert registry._upcoming == {}


async def test_unchanged_tool_keeps_its_validator(registry, directory, broker):
    """It takes long to make, and another service's change is no reason."""
    before = registry.view(None).tools
    taken = before["atlas_look_up"]
    worker = Worker("zoo")
    worker.add_tool(structs.replace(before["say"].descriptor, toolset="zoo"), None)
    await broker.connect(name="zoo").serve(worker)
    await known(directory, "zoo")
    after = registry.view(None).tools
    assert after["say"] is before["say"]
    assert after["atlas_look_up"] is taken
    assert taken.is_of("atlas_look_up", taken.descriptor, "atlas", "")
    assert not taken.is_of("look_up", taken.descriptor, "atlas", "")
    assert not taken.is_of("atlas_look_up", taken.descriptor, "atlas", "its roles changed")
    assert not taken.is_of("atlas_look_up", before["say"].descriptor, "atlas", "")


async def test_views_are_made_in_a_thread_before_a_change_is_published(
    bus, dictionary, broker, monkeypatch
):
    """Thousands of new tools must not hold the requests that run."""
    threads: dict[str, set[int]] = {}
    check = module.has_valid_schema

    def noting(tool):
        threads.setdefault(tool.name, set()).add(threading.get_ident())
        return check(tool)

    monkeypatch.setattr(module, "has_valid_schema", noting)
    await broker.connect(name="dictionary").serve(dictionary_worker(dictionary))
    directory = Directory(bus, prepare=lambda listing: registry.prepare(listing))
    registry = Registry(directory, ())
    await directory.start()
    assert "say" in registry.view(None).tools
    assert "say" in registry.view("dictionary").tools
    worker = Worker("zoo")
    worker.add_tool(
        structs.replace(registry.view(None).tools["say"].descriptor, toolset="zoo"), None
    )
    await broker.connect(name="zoo").serve(worker)
    await known(directory, "zoo")
    upcoming = registry._upcoming[None]
    assert registry.view(None) is upcoming
    assert "zoo_say" in upcoming.tools
    assert list(registry.view("zoo").tools) == ["say"]
    assert threads
    assert all(threading.get_ident() not in found for found in threads.values())
    await directory.close()


async def test_own_tools_come_last_and_only_while_offered(directory, make_tool):
    """Their endpoint lists the pinned tools as well."""
    offered = True
    registry = Registry(
        directory, ("dictionary",), own=[make_tool("find", toolset="lazy").descriptor],
        own_offered=lambda: offered, pinned=("say", "absent"),
    )  # fmt: skip
    assert names(registry)[-1] == "find"
    assert names(registry, "lazy") == ["find", "say"]
    assert "find" not in names(registry, "atlas")
    assert registry.view(None).tool_of["lazy", "find"].name == "find"
    assert registry.toolsets[-1] == "lazy"
    offered = False
    assert "find" not in names(registry)
    assert "lazy" not in registry.toolsets


async def test_own_tools_on_the_bus_are_listed_once(broker, directory, make_tool):
    """An edge announces its own tools, and lists them itself."""
    own = make_tool("find", toolset="lazy").descriptor
    worker = Worker("connector")
    worker.add_tool(own, None)
    await broker.connect(name="connector").serve(worker)
    await known(directory, "connector")
    registry = Registry(directory, ("dictionary",), own=[own])
    assert names(registry).count("find") == 1
    assert "lazy_find" not in names(registry)
    assert registry.view("lazy").tools["find"].service == ""


@pytest.mark.parametrize(
    ("template", "uri", "matches"),
    [
        ("a://{x}/b", "a://1/b", True),
        ("a://{x}/b", "a://1/2/b", False),
        ("a://{x}/b", "a:///b", False),
        ("a.b://{x}", "aXb://1", False),
        ("a://{x}/{y_1}", "a://1/2", True),
        ("a://b", "a://b", True),
    ],
)
def test_template_matches_one_segment_per_variable(template, uri, matches):
    """RFC 6570, level 1."""
    assert UriTemplate(template).matches(uri) is matches


async def test_a_qualified_name_is_for_lists_of_several_toolsets(directory, broker):
    """On the toolset's own endpoint the tool has its own name."""
    worker = Worker("zoo")
    say = Registry(directory, ()).view(None).tools["say"].descriptor
    for name in ("say", "other"):
        tool = structs.replace(say, toolset="zoo", name=name, qualified_name=f"zoo__{name}")
        worker.add_tool(tool, None)
    await broker.connect(name="zoo").serve(worker)
    await known(directory, "zoo")
    registry = Registry(directory, ())
    assert {"zoo__say", "zoo__other", "say"} <= set(names(registry))
    assert registry.view(None).tool_of["zoo", "say"].name == "zoo__say"
    assert names(registry, "zoo") == ["other", "say"]


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
    ((matcher, _),) = office.templates
    assert matcher.matches("x:7")


def test_a_template_that_stays_is_not_read_again():
    """A server can change its catalogue all the time, and have thousands of them."""

    def offered(numbers: range) -> Catalog:
        uris = (f"x{number}:{{n}}" for number in numbers)
        templates = (ResourceTemplate(uri_template=uri, name="n", toolset="t") for uri in uris)
        return Catalog(service="office", resource_templates=tuple(templates))

    first = follow(Offers(), offered(range(1_000)))
    second = follow(first, offered(range(1, 1_001)))
    before, after = first.of["t"].templates, second.of["t"].templates
    assert all(new is old for (old, _), (new, _) in zip(before[1:], after[:-1], strict=True))


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


def test_search_beside_call_tool_finds_all_that_it_can_call(directory, make_tool):
    """On the endpoint of the edge's own tools; every other one searches its own."""
    registry = Registry(directory, (), own=(make_tool("call_tool", toolset="lazy").descriptor,))
    assert registry.searched("lazy") is registry.view(None)
    assert registry.searched("dictionary") is registry.view("dictionary")
