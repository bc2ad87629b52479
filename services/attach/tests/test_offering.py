"""The toolsets of a worker follow servers and selections."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from searchbus_attach.declare.views import parse_selection
from searchbus_attach.definitions.describe import ServerContents
from searchbus_attach.offering import Offering
from searchbus_bus import Worker
from searchbus_contracts import ErrorCode, Fault, PromptDescriptor, ToolDescriptor
from searchbus_testing import until

from .conftest import children, plain_keys


def server(name: str, *tools: str, prompts: tuple[str, ...] = ()):
    """What is used of an attached server."""
    return SimpleNamespace(
        descriptors=tuple(
            ToolDescriptor(
                name=tool, toolset=name, qualified_name=f"{name}__{tool}", description=tool,
                input_schema={"type": "object"},
            )
            for tool in tools
        ),
        call=None,
        known=True,
        templates=(),
        contents=ServerContents(
            prompts=tuple(PromptDescriptor(name=prompt, toolset=name) for prompt in prompts)
        ),
        read=None,
        get_prompt=None,
        complete=None,
    )  # fmt: skip


def names(worker: Worker) -> list[str]:
    return [f"{tool.toolset}.{tool.name}" for tool in worker.catalog.tools]


def test_a_server_is_offered_changed_and_taken_back():
    """With its prompts."""
    worker = Worker("attach")
    offering = Offering(worker)
    offering.offer("a", server("a", "x", "y", prompts=("p",)))
    assert names(worker) == ["a.x", "a.y"]
    assert worker.content_endpoints.get(("prompt", "a", "get"))
    offering.offer("a", server("a", "y", "z"))
    assert names(worker) == ["a.y", "a.z"]
    assert worker.content_endpoints.get(("prompt", "a", "get")) is None
    offering.offer("a", None)
    assert worker.catalog.toolsets == ()


def test_a_selection_follows_its_servers():
    """It is gone with its declaration; its name may be a server's then."""
    worker = Worker("attach")
    offering = Offering(worker)
    servers = {"a": server("a", "x"), "b": server("b", "x")}
    for name, found in servers.items():
        offering.offer(name, found)
    offering.declare({"both": parse_selection("both", {"allow": ["*__x"]})})
    offering.offer_selections(servers)
    assert names(worker) == ["a.x", "b.x", "both.a__x", "both.b__x"]
    assert [(view.name, view.tools) for view in offering.views] == [("both", ("a__x", "b__x"))]
    servers["a"] = server("a", "x", "y__x")
    offering.offer("a", servers["a"])
    offering.offer_selections(servers)
    assert "both.a__y__x" in names(worker)
    assert offering.views[0].problems == ()
    offering.declare({"both": parse_selection("both", {"allow": ["*__x"], "deny": ["b__*", "c*"]})})
    servers["b"].known, servers["b"].descriptors = False, ()
    offering.offer_selections(servers)
    (problem,) = offering.views[0].problems
    assert problem.startswith("'c*' of 'deny' matches no tool.")
    del servers["b"]
    servers["both"] = server("both", "own")
    offering.declare({})
    for name in ("b", "both"):
        offering.offer(name, servers.get(name))
    offering.offer_selections(servers)
    assert names(worker) == ["a.x", "a.y__x", "both.own"]
    assert offering.views == ()


OBJECT = {"type": "object"}
VIEW = """
[servers.plain.view]
deny = ["die*"]

[servers.plain.view.tools.echo]
name = "say"
description = "Say what was agreed."
arguments = {text = "agreed"}
"""
SELECTION = """
[views.reading]
allow = ["plain__[es]*", "other__echo"]
required_roles = ["RESEARCHER"]
"""


def write(world, text: str, **servers) -> None:
    world.write(**servers)
    world.path.write_text(world.path.read_text() + text)


async def test_a_view_is_applied_without_a_restart_of_its_server(new_world):
    """What it renames is called by the new name, with the arguments that it fixes."""
    world = await new_world(plain=plain_keys(policy="hold"))
    await world.until_up()
    (before,) = children()
    write(world, VIEW, plain=plain_keys(policy="hold"))
    await until(lambda: "say" in world.tools("plain"))
    tools = world.tools("plain")
    assert not {"echo", "die", "die_once"} & tools.keys()
    assert tools["say"].description == "Say what was agreed."
    assert "text" not in tools["say"].input_schema["properties"]
    assert (await world.call("plain", "say", text="mine")).content[0].text == "agreed"
    for name in ("echo", "die"):
        with pytest.raises(Fault) as fault:
            await world.call("plain", name)
        assert fault.value.code == ErrorCode.NOT_FOUND
    status = (await world.status("plain")).servers[0]
    assert (status.held, status.tools) == (0, 4)  # the server changed nothing
    shown = {tool.name: (tool.listed_as, tool.problem) for tool in status.tool_list}
    assert shown["echo"] == ("plain__say", "")
    assert shown["die"] == ("", "the view leaves it out")
    assert before.is_running()
    world.write(plain=plain_keys(policy="hold"))
    await until(lambda: "echo" in world.tools("plain"))
    assert before.is_running()


async def test_a_view_stays_when_the_server_changes_its_list(new_world, tmp_path):
    """What the server sends is reviewed as it comes; the view is put on it again."""
    listed = tmp_path / "tools.json"
    one = {"name": "echo", "description": "Says.", "inputSchema": {"type": "object"}}
    other = {"name": "reload", "description": "Reloads.", "inputSchema": {"type": "object"}}
    listed.write_text(json.dumps([one, other]))
    keys = plain_keys({"tools_file": str(listed)}, policy="warn")
    world = await new_world(plain=keys)
    await world.until_up()
    write(world, VIEW, plain=keys)
    await until(lambda: "say" in world.tools("plain"))
    listed.write_text(json.dumps([one | {"description": "Says more.", "title": "More"}, other]))
    await world.call("plain", "reload")
    await until(lambda: world.tools("plain")["say"].title == "More")
    assert world.tools("plain")["say"].description == "Say what was agreed."
    status = (await world.status("plain")).servers[0]
    assert status.held == 1  # of the server's own description and title


async def test_a_selection_is_a_toolset_whose_tools_are_those_of_servers(new_world):
    """It follows their lists and views; its tools are aside, and route to their server."""
    servers = {"plain": plain_keys(), "other": plain_keys()}
    world = await new_world(**servers)
    await world.until_up()
    await world.until_up("other")
    write(world, SELECTION, **servers)
    names = {"plain__echo", "plain__slow", "plain__environment", "other__echo"}
    await until(lambda: world.tools("reading").keys() == names)
    tool = world.tools("reading")["plain__echo"]
    assert (tool.aside, tool.qualified_name) == (True, None)
    assert tool.required_roles == ("RESEARCHER",)
    assert world.tools("plain")["echo"].required_roles == ()
    reply = await world.call("reading", "other__echo", text="x")
    assert reply.content[0].text == "x"
    write(world, VIEW + SELECTION, **servers)
    await until(lambda: "plain__say" in world.tools("reading"))
    assert (await world.call("reading", "plain__say")).content[0].text == "agreed"
    (view,) = (await world.status()).views
    assert (view.name, set(view.tools)) == ("reading", world.tools("reading").keys())
    write(world, SELECTION, other=plain_keys())
    await until(lambda: world.tools("reading").keys() == {"other__echo"})
    (view,) = (await world.status()).views
    (problem,) = view.problems
    assert problem.startswith("'plain__[es]*' of 'allow' matches no tool. Known: other__echo,")
    world.write(other=plain_keys())
    await until(lambda: not world.tools("reading"))
    assert world.tools("other")


async def test_a_name_that_two_tools_have_is_in_a_selection_once(new_world, caplog):
    """Two names that are too long can have the same hash."""
    names = [f"{'long':_<56}{end}" for end in ("96022", "112579")]
    tools = [{"name": name, "description": "Says.", "inputSchema": OBJECT} for name in names]
    keys = plain_keys({"tools": tools})
    world = await new_world(files=keys)
    await world.until_up("files")
    assert len(world.tools("files")) == 2
    write(world, '[views.reading]\nallow = ["files__*"]\n', files=keys)
    await until(lambda: len(world.tools("reading")) == 1)
    assert "two tools have it" in caplog.text


async def test_a_selection_and_a_server_can_swap_their_name(new_world):
    """In one change of the file."""
    selection = SELECTION.replace("reading", "plain").replace("plain__", "other__")
    world = await new_world(other=plain_keys())
    write(world, selection, other=plain_keys())
    await until(lambda: "other__echo" in world.tools("plain"))
    world.write(plain=plain_keys(), other=plain_keys())
    await until(lambda: "echo" in world.tools("plain"))
    assert "other__echo" not in world.tools("plain")
    write(world, selection, other=plain_keys())
    await until(lambda: "other__echo" in world.tools("plain"))


async def test_a_view_can_leave_out_prompts_and_resources(new_world):
    """And ask for roles."""
    from .test_contents import broad_keys, catalog

    world = await new_world(broad=broad_keys())
    await world.until_up("broad")
    assert catalog(world).prompts
    view = "\n[servers.broad.view]\nprompts = false\nrequired_roles = ['FRIEND']\n"
    write(world, view, broad=broad_keys())
    await until(lambda: not catalog(world).prompts)
    assert {r.required_roles for r in catalog(world).resources} == {("FRIEND",)}
