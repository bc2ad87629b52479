"""Attached servers on the bus: listed, called, changed and removed while everything runs."""

from __future__ import annotations

import asyncio
import functools
import json

import pytest

from searchbus_attach import gateway as module
from searchbus_attach.gateway import _GAUGES
from searchbus_attach.upstream import following as pauses
from searchbus_attach.upstream import upstream
from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_testing import until

from .conftest import children, plain_keys

TOOL = {"name": "one", "description": "One.", "inputSchema": {"type": "object"}}


async def test_a_server_is_a_toolset(new_world):
    """Its tools are on the bus with their names beside others, and can be called."""
    world = await new_world(plain=plain_keys(), other=plain_keys())
    await world.until_up()
    await world.until_up("other")
    tools = world.tools("plain")
    assert tools["echo"].qualified_name == "plain__echo"
    assert world.tools("other")["echo"].qualified_name == "other__echo"
    reply = await world.call("plain", "echo", text="hello")
    assert [block.text for block in reply.content] == ["hello"]
    (found,) = [s for s in (await world.status("plain")).servers]
    assert (found.state, found.server_info, found.protocol) == ("up", "plain 1.0", "2025-06-18")
    assert {"echo", "add"} <= {tool.name for tool in found.tool_list}


async def test_the_file_is_applied_while_it_runs(new_world):
    """A new server appears, a removed one goes with its process, the others are not touched."""
    world = await new_world(plain=plain_keys())
    await world.until_up()
    (before,) = children()
    world.write(plain=plain_keys(), other=plain_keys())
    await world.until_up("other")
    assert before.is_running()
    world.write(other=plain_keys())
    await until(lambda: not world.tools("plain") and not before.is_running())
    with pytest.raises(Fault) as fault:
        await world.call("plain", "echo")
    assert fault.value.code == ErrorCode.UNAVAILABLE
    assert (await world.call("other", "echo", text="x")).content[0].text == "x"


async def test_a_restart_undoes_no_change_of_the_file(new_world):
    """What is removed while a server takes its time to end stays removed."""
    world = await new_world(plain=plain_keys(), other=plain_keys())
    for name in ("plain", "other"):
        await world.until_up(name)
    attached, ended = world.gateway._attached, asyncio.Event()
    stop = attached["plain"].stop

    async def stop_late() -> None:
        await ended.wait()
        await stop()

    attached["plain"].stop = stop_late
    restart = asyncio.ensure_future(world.gateway.restart("plain"))
    await until(lambda: "plain" not in attached)
    seen = world.gateway._file_stamp
    world.write(plain=plain_keys())
    await until(lambda: world.gateway._file_stamp != seen)
    ended.set()
    await restart
    await until(lambda: [*attached] == ["plain"])
    await world.until_up()


async def test_a_restart_that_nobody_waits_for_is_ended(new_world):
    """The server is not gone with the request."""
    world = await new_world(plain=plain_keys())
    await world.until_up()
    attached = world.gateway._attached
    before, ended = attached["plain"], asyncio.Event()
    stop, before.stop = before.stop, ended.wait
    restart = asyncio.ensure_future(world.gateway.restart("plain"))
    await until(lambda: "plain" not in attached)
    restart.cancel()
    await asyncio.gather(restart, return_exceptions=True)
    await stop()
    assert attached["plain"] is not before
    await world.until_up()


async def test_a_broken_file_changes_nothing(new_world):
    """The last valid one counts, and the operator is told."""
    world = await new_world(plain=plain_keys())
    await world.until_up()
    whole = world.path.read_text()
    world.path.write_text(whole.replace("command", "comand"))

    async def told() -> bool:
        return "Did you mean 'command'" in (await world.status()).file_problem

    await until(told)
    assert (await world.call("plain", "echo", text="x")).content[0].text == "x"
    world.path.write_text(whole)

    async def mended() -> bool:
        return not (await world.status()).file_problem

    await until(mended)


async def test_a_dead_server_blocks_no_other(new_world):
    """Neither one that hangs at the start nor one that ends at once."""
    world = await new_world(
        plain=plain_keys(),
        hangs=plain_keys({"start": "hang"}),
        dies=plain_keys({"start": "die"}),
        missing={"command": "/no/such/program"},
        shy={"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
    )
    await world.until_up()
    assert (await world.call("plain", "echo", text="x")).content[0].text == "x"

    async def known() -> bool:
        problems = {s.name: s.problem for s in (await world.status()).servers}
        return (
            "code 4" in problems["dies"]
            and "no program" in problems["missing"]
            and "NOT_SET_ANYWHERE" in problems["shy"]
        )

    await until(known)
    assert set(world.directory.catalogs[0].toolsets) == {"plain"}


async def test_a_file_that_an_editor_empties_for_a_moment_ends_nothing(new_world, monkeypatch):
    """Only a second look finds that no server is attached any more."""
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 3600.0)
    world = await new_world(plain=plain_keys())
    await world.until_up()
    (process,) = children()
    world.path.write_text("")
    await world.gateway._look_at_file()
    world.write(plain=plain_keys())
    await world.gateway._look_at_file()
    assert children() == [process]
    world.path.unlink()
    await world.gateway._look_at_file()
    assert children() == [process]
    await world.gateway._look_at_file()
    assert children() == []


async def test_a_call_that_may_have_been_done_is_not_repeated(new_world):
    """A tool that ends its server is called once, by the bus too."""
    world = await new_world(plain=plain_keys())
    await world.until_up()
    with pytest.raises(Fault, match="may have been done") as fault:
        await world.call("plain", "die")
    assert not fault.value.failure.retryable
    # Its state says `up` until the end of the process is over.
    await world.call("plain", "echo", text="x")
    assert [server.restarts for server in (await world.status()).servers] == [1]


async def test_a_list_that_changes_is_followed(new_world, tmp_path):
    """After the server's notice, once for a burst of them."""
    listed = tmp_path / "tools.json"
    reload = {**TOOL, "name": "reload"}
    listed.write_text(json.dumps([TOOL, reload]))
    world = await new_world(plain=plain_keys({"tools_file": str(listed)}, policy="accept"))
    await world.until_up()
    listed.write_text(json.dumps([{**TOOL, "name": "two"}, reload]))
    await asyncio.gather(*(world.call("plain", "reload") for _ in range(5)))
    await until(lambda: set(world.tools("plain")) == {"two", "reload"})
    with pytest.raises(Fault, match="no tool of that name"):
        await world.call("plain", "one")


async def test_a_list_is_read_again_without_a_notice(new_world, tmp_path):
    """From time to time."""
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps([TOOL]))
    world = await new_world(
        poll_s=0.2, plain=plain_keys({"tools_file": str(listed)}, policy="accept")
    )
    await world.until_up()
    listed.write_text(json.dumps([{**TOOL, "name": "two"}]))
    await until(lambda: set(world.tools("plain")) == {"two"})


async def test_a_list_that_breaks_later_leaves_the_last_good_one(new_world, tmp_path):
    """It is marked as stale."""
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps([TOOL]))
    keys = plain_keys({"tools_file": str(listed)}, list_timeout_s=1.0)
    world = await new_world(poll_s=0.2, plain=keys)
    await world.until_up()
    listed.unlink()  # tools/list ends the server's thread of work: it dies

    async def stale() -> bool:
        (found,) = (await world.status()).servers
        return found.stale

    await until(stale)
    assert set(world.tools("plain")) == {"one"}


async def test_the_lists_of_the_last_run_are_there_at_once(new_world, monkeypatch):
    """While the servers start, also one that does not come up."""
    monkeypatch.setattr(upstream, "_REPLY_MARGIN_S", 8.5)  # a busy machine has time to reply
    world = await new_world(plain=plain_keys(policy="accept"))
    await world.until_up()
    world.write(plain=plain_keys({"start": "hang"}, policy="accept"))
    second = await new_world()
    await until(lambda: "echo" in second.tools("plain"))
    with pytest.raises(Fault, match="cannot be used now") as fault:
        await second.call("plain", "echo", timeout_s=10.0)
    assert fault.value.code == ErrorCode.UNAVAILABLE


async def test_tools_of_a_server_that_stays_away_go_after_the_grace_time(new_world):
    """Also where they were only known from the last run."""
    world = await new_world(grace_s=0.0, plain=plain_keys(policy="accept"))
    await world.until_up()
    world.write(plain=plain_keys({"start": "die"}, policy="accept"))
    await until(lambda: not world.tools("plain"))


async def test_nothing_is_left_at_the_end(new_world):
    """No child of any server."""
    world = await new_world(plain=plain_keys(), hard=plain_keys({"ignore_term": True}))
    await world.until_up()
    await world.until_up("hard")
    assert len(children()) == 2
    await world.gateway.__aexit__()
    assert children() == []


@pytest.mark.slow
async def test_twenty_servers_at_once(new_world):
    """Each has its tools, and answers; a gigantic list and a dead one are among them."""
    many = [
        {"name": f"tool_{number}", "description": "x" * 500, "inputSchema": {"type": "object"}}
        for number in range(50)
    ]
    good = {f"s{number}": plain_keys() for number in range(17)}
    world = await new_world(
        **good,
        dead=plain_keys({"start": "die"}),
        flood=plain_keys({"start": "garbage"}),
        huge=plain_keys({"tools": many, "page_size": 7}),
    )
    await asyncio.gather(*(world.until_up(name) for name in (*good, "huge")))
    replies = await asyncio.gather(*(world.call(name, "echo", text=name) for name in good))
    assert [reply.content[0].text for reply in replies] == list(good)
    assert len(world.tools("huge")) == 50
    await world.gateway.__aexit__()
    assert children() == []


@pytest.mark.parametrize(("state", "processes"), [("stateless", 1), ("stateful", 3)])
async def test_callers_share_a_session_or_have_one_each(new_world, state, processes):
    """Beside the one that reads the list."""
    world = await new_world(plain=plain_keys(state=state))
    await world.until_up()
    for subject in ("ann", "bob", "ann"):
        actor = Actor(subject=subject, roles=("*",))
        reply = await world.call("plain", "echo", actor=actor, text=subject)
        assert reply.content[0].text == subject
    assert len(children()) == processes
    await world.gateway.__aexit__()
    assert children() == []


async def test_what_is_measured_of_each_server(new_world, tmp_path, monkeypatch):
    """Whether it can be called, whether its list is an old one, what of it is held."""
    monkeypatch.setattr(pauses, "PAUSE_S", (300.0, 300.0))
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps([TOOL]))
    keys = plain_keys({"tools_file": str(listed)}, policy="hold")
    world = await new_world(plain=keys)
    await world.until_up()
    gateway, labels = world.gateway, {"server": "plain"}
    up, stale, held = (functools.partial(gauge._read, gateway) for gauge in _GAUGES)
    assert up() == [(1.0, labels)]
    assert stale() == held() == [(0.0, labels)]
    gateway._attached["plain"].upstream.lists.stale = True
    assert stale() == [(1.0, labels)]
    listed.write_text(json.dumps([{**TOOL, "description": "Two."}, {**TOOL, "name": "two"}]))
    world.write(plain={**keys, "call_timeout_s": 5})
    await until(lambda: held() == [(2.0, labels)])
    world.write(plain={**keys, "command": "/no/such/program"})
    await until(lambda: up() == [(0.0, labels)])
