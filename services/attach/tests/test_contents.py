"""Resources and prompts of a server over the bus."""

from __future__ import annotations

import sys

import pytest

from searchbus_contracts import Actor, ErrorCode, Fault, ResourceReadReply, ResourceReadRequest
from searchbus_contracts.resources import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
)
from searchbus_testing import until

from .conftest import EVERYBODY, PROGRAM

BROAD = PROGRAM.with_name("broad_server.py")
ADDRESS = "searchbus://attach/broad/"


def broad_keys(**keys):
    return {"command": sys.executable, "args": ["-I", "-S", str(BROAD)], **keys}


async def ask(world, family, verb, request, reply_type, actor=EVERYBODY):
    subject = getattr(world.bus.subjects, family)("broad", verb)
    return await world.bus.request(
        subject, request, reply_type, service="attach", timeout_s=60, actor=actor
    )


def catalog(world):
    return next(c for c in world.directory.catalogs if c.service == "attach")


async def test_resources_are_read_by_their_address(new_world):
    """Listed or not; the server's own errors pass through."""
    world = await new_world(broad=broad_keys())
    await world.until_up("broad")
    assert [r.uri for r in catalog(world).resources] == [
        f"{ADDRESS}note:///picture", f"{ADDRESS}note:///text"
    ]  # fmt: skip

    async def read(uri, actor=EVERYBODY):
        request = ResourceReadRequest(uri=uri)
        return await ask(world, "resource", "read", request, ResourceReadReply, actor)

    assert (await read(f"{ADDRESS}note:///by-number/7")).contents[0].text == "note 7"
    (picture,) = (await read(f"{ADDRESS}note:///picture")).contents
    assert (picture.mime_type, picture.blob) == ("image/png", "iVBORw0KGgo=")
    for uri in (f"{ADDRESS}note:///none", "note:///text", "searchbus://attach/other/note:///text"):
        with pytest.raises(Fault) as fault:
            await read(uri)
        assert fault.value.code == ErrorCode.NOT_FOUND


async def test_prompts_are_filled_in_and_completed_by_the_server(new_world):
    """An unknown prompt is refused without asking the server."""
    world = await new_world(broad=broad_keys())
    await world.until_up("broad")
    request = PromptGetRequest(prompt="greet", arguments={"name": "Ada"})
    filled = await ask(world, "prompt", "get", request, PromptGetReply)
    assert [message.role for message in filled.messages] == ["user", "assistant"]
    assert filled.messages[0].content.text == "Greet Ada in a plain tone."
    request = CompleteRequest(name="greet", argument="tone", value="g", arguments={"name": "Ada"})
    found = await ask(world, "prompt", "complete", request, CompleteReply)
    assert found.values == ("Grace", "tone for Ada")
    template = f"{ADDRESS}note:///by-number/{{number}}"
    request = CompleteRequest(name=template, argument="number", value="2")
    assert (await ask(world, "resource", "complete", request, CompleteReply)).values == ("2",)
    with pytest.raises(Fault, match="no such prompt"):
        await ask(world, "prompt", "get", PromptGetRequest(prompt="nope"), PromptGetReply)


async def test_what_a_view_leaves_out_is_not_completed_either(new_world):
    """The server is not asked."""
    world = await new_world(broad=broad_keys(view={"resources": False}))
    await world.until_up("broad")
    template = f"{ADDRESS}note:///by-number/{{number}}"
    request = CompleteRequest(name=template, argument="number", value="2")
    for family in ("resource", "prompt"):
        with pytest.raises(Fault) as fault:
            await ask(world, family, "complete", request, CompleteReply)
        assert fault.value.code == ErrorCode.NOT_FOUND


@pytest.mark.slow
async def test_changes_of_each_list_are_passed_on(new_world):
    """The server says so; its lists are read again."""
    world = await new_world(broad=broad_keys())
    await world.until_up("broad")
    for kind in ("prompts", "resources", "tools"):
        await world.call("broad", "change", kind=kind)
        await until(lambda k=kind: "later" in {item.name for item in getattr(catalog(world), k)})
    status = (await world.status("broad")).servers[0]
    assert (status.prompts, status.resources) == (4, 3)
    world.write()
    await until(lambda: not catalog(world).prompts and not catalog(world).resource_templates)


async def test_the_servers_roles_are_needed_for_everything(new_world):
    """The descriptors say so, and the worker checks it."""
    world = await new_world(broad=broad_keys(required_roles=["FRIEND"]))
    await world.until_up("broad")
    found = catalog(world)
    items = (*found.tools, *found.prompts, *found.resources, *found.resource_templates)
    assert {item.required_roles for item in items} == {("FRIEND",)}
    request = PromptGetRequest(prompt="simple")
    with pytest.raises(Fault) as fault:
        await ask(world, "prompt", "get", request, PromptGetReply, Actor(subject="stranger"))
    assert fault.value.code == ErrorCode.FORBIDDEN
    friend = Actor(subject="friend", roles=("FRIEND",))
    assert (await ask(world, "prompt", "get", request, PromptGetReply, friend)).messages
