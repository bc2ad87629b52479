"""What an operator changes while the service runs."""

from __future__ import annotations

import json
from functools import partial

import pytest

from searchbus_attach.declare.attach_file import AttachFile
from searchbus_attach.managing import Managing
from searchbus_contracts import Actor, Fault
from searchbus_contracts.attach import ManageReply, ManageRequest
from searchbus_testing import until

from .conftest import plain_keys

DESCRIPTIONS = ("Say a text again.", "Say another text.")


def managing(world, logs=None):
    """What carries out requests of this gateway."""
    file = AttachFile(world.path, {"web"})
    return partial(Managing(world.gateway, file, logs, world.policy.consent).manage, None)


def tools(description: str) -> list[dict[str, object]]:
    """The list of a server with one tool."""
    return [{"name": "echo", "description": description, "inputSchema": {"type": "object"}}]


async def test_change_is_read_and_approved_by_its_digits(new_world, tmp_path):
    """Digits of another definition approve nothing."""
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(tools(DESCRIPTIONS[0])))
    world = await new_world(plain=plain_keys({"tools_file": str(file)}, policy="hold"))
    await world.until_up("plain")
    manage = managing(world)
    assert (await manage(ManageRequest(action="diff", servers=("plain",)))).held == ()
    file.write_text(json.dumps(tools(DESCRIPTIONS[1])))
    await manage(ManageRequest(action="restart", servers=("plain",)))
    await until(lambda: world.gateway.held("plain"))
    (held,) = (await manage(ManageRequest(action="diff", servers=("plain",)))).held
    assert held.name == "echo"
    assert any(DESCRIPTIONS[1] in line for line in held.lines)
    for digits in (("0" * 32,), (held.digits[:8],), ()):
        with pytest.raises(Fault, match="Nothing differs"):
            await manage(ManageRequest(action="approve", servers=("plain",), digits=digits))
    await manage(ManageRequest(action="refuse", servers=("plain",), digits=(held.digits,)))
    (refused,) = (await manage(ManageRequest(action="diff", servers=("plain",)))).held
    assert refused.refused
    (state,) = (await world.status("plain")).servers
    assert state.held == 0
    done = await manage(ManageRequest(action="approve", servers=("plain",), digits=(held.digits,)))
    assert done == ManageReply(done=("echo",))
    await until(lambda: not world.gateway.held("plain"))


async def test_servers_of_a_host_are_added_once_and_removed(new_world):
    """searchbus itself is left out; text that is not the JSON of a client changes nothing."""
    world = await new_world()
    manage = managing(world)
    own = {"command": "searchbus", "args": ["stdio"]}
    text = json.dumps({"mcpServers": {"plain": plain_keys(), "own": own}})
    added = await manage(ManageRequest(action="add", text=text))
    assert added.done == ("plain",)
    assert added.left_out == {"own": "it is searchbus itself"}
    again = await manage(ManageRequest(action="add", text=text))
    assert again.done == ()
    await world.until_up("plain")
    for wrong in ("{", "[]", '{"mcpServers": {"web": {"command": "x"}}}'):
        with pytest.raises(Fault) as raised:
            await manage(ManageRequest(action="add", text=wrong))
        assert raised.value.code == "invalid_argument"
    await manage(ManageRequest(action="remove", servers=("plain",)))
    await until(lambda: world.gateway.server("plain") is None)


async def test_view_is_previewed_and_then_saved(new_world):
    """Nothing changes before; the listed tools are those of the preview, and of the file."""
    world = await new_world(plain=plain_keys())
    await world.until_up("plain")
    manage = managing(world)

    async def ask(action, **more) -> ManageReply:
        return await manage(ManageRequest(action=action, servers=("plain",), **more))

    now = await ask("view")
    assert (now.text, now.view.changed) == ("", 0)
    text = "# ours\nallow = ['echo']\n\n[tools.echo]\nname = 'again'\n"
    shown = await ask("preview", text=text)
    assert [tool.listed_as for tool in shown.view.tools if tool.listed_as] == ["plain__again"]
    assert (await ask("view")).view == now.view
    for digits, why in (((), "digits"), (("0" * 16,), "another one by now")):
        with pytest.raises(Fault, match=why):
            await ask("save_view", text=text, digits=digits)
    with pytest.raises(Fault, match="Did you mean 'allow'"):
        await ask("preview", text="alow = []")
    saved = await ask("save_view", text=text, digits=(shown.stamp,))
    assert saved.view == shown.view
    assert (await ask("view")).text == text
    assert saved.stamp == (await ask("view")).stamp

    async def listed() -> list[str]:
        (server,) = (await world.status("plain")).servers
        return [tool.listed_as for tool in server.tool_list if tool.listed_as]

    await until(lambda: _equals(listed, ["plain__again"]))
    assert (await ask("view")).view.changed == 0


async def _equals(read, wanted) -> bool:
    return await read() == wanted


async def test_only_an_attached_server_has_a_log(new_world, tmp_path):
    """A name cannot lead to another file."""
    world = await new_world(plain=plain_keys())
    (tmp_path / "attach-plain.log").write_text("printed\n")
    manage = managing(world, tmp_path)
    log = await manage(ManageRequest(action="log", servers=("plain",)))
    assert log.log == "printed\n"
    for name in ("other", "../attach-plain"):
        with pytest.raises(Fault, match="No server"):
            await manage(ManageRequest(action="log", servers=(name,)))
    for names in ((), ("plain", "plain")):
        with pytest.raises(Fault, match="one server"):
            await manage(ManageRequest(action="log", servers=names))


async def test_change_needs_the_role_of_operators(new_world):
    """Whoever may only call tools changes nothing."""
    world = await new_world(plain=plain_keys())
    bus = world.bus
    for actor in (None, Actor(subject="x", roles=("OTHER",))):
        with pytest.raises(Fault) as raised:
            await bus.request(
                bus.subjects.endpoint("attach", "manage"),
                ManageRequest(action="remove", servers=("plain",)), ManageReply,
                service="attach", timeout_s=30.0, actor=actor,
            )  # fmt: skip
        assert raised.value.code == "forbidden"
