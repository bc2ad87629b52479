"""What `searchbus attach list` and `show` print: the keys of the file, the state of the service."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.attach import (
    AttachedServer,
    ManageReply,
    ManageRequest,
    StatusReply,
    StatusRequest,
)
from searchbus_runtime import data_folder
from searchbus_runtime.state import no_stack
from searchbus_runtime.wording import printable

from ..declare.attach_file import Declared
from ..declare.servers import Server
from ..declare.views import Selection
from ..errors import ServerDeclarationError

if TYPE_CHECKING:
    from searchbus_runtime import BusAddress

T = TypeVar("T")
_TIMEOUT_S = 10.0
_MASK = "***"
_NOT_RUNNING = "not running"
FAULTY = "faulty"
_HEADINGS = ("server", "state", "target", "offers", "problem")
_VARIABLE = re.compile(r"\$\{[^{}]*\}")


def ask_status(data: Path, server: str | None = None) -> StatusReply | None:
    """What the running service says; None where none is running.

    Raises:
        Fault: it does not answer, or the bus cannot be reached.
    """
    # Without an actor: no role is needed, and in the service's container the command has its
    # keys, which cannot sign one.
    return _ask(data, "status", StatusRequest(server=server), StatusReply)


def ask_manage(data: Path | None, request: ManageRequest) -> ManageReply:
    """Have the running service change something.

    Raises:
        DeclarationError: none is running.
        Fault: it refuses or does not answer, or the bus cannot be reached.
    """
    folder = data_folder(data)
    reply = _ask(folder, "manage", request, ManageReply, Actor(subject="cli", roles=("*",)))
    if reply is None:
        raise ServerDeclarationError(not_running(folder))
    return reply


def _ask(
    data: Path, verb: str, request: Any, reply: type[T], actor: Actor | None = None
) -> T | None:
    from searchbus_runtime import find_bus, open_bus

    async def ask(address: BusAddress) -> T:
        async with open_bus(address, "cli") as bus:
            return await bus.request(
                bus.subjects.endpoint("attach", verb), request, reply,
                service="attach", timeout_s=_TIMEOUT_S, actor=actor,
            )  # fmt: skip

    address = find_bus(data)
    try:
        return None if address is None else asyncio.run(ask(address))
    except Fault as fault:
        if fault.code == ErrorCode.UNAVAILABLE and fault.failure.retryable:
            return None
        raise


def state_of(server: Server) -> str:
    """The state of a server of which no service says anything, in a word or two."""
    return _NOT_RUNNING if server.enabled else "disabled"


def table(declared: Declared, status: StatusReply | None) -> Iterator[str]:
    """The servers and the views of several of them, in columns; nothing where there are none."""
    servers = {found.name: found for found in status.servers} if status else {}
    views = {view.name: len(view.tools) for view in status.views} if status else {}
    rows = [_row(server, servers.get(name)) for name, server in declared.servers.items()]
    for name in declared.selections:
        is_up = name in views
        tools = _count(views[name], "tools") if is_up else ""
        rows.append((name, "up" if is_up else _NOT_RUNNING, "a view", tools, ""))
    rows += [(name, FAULTY, "", "", fault) for name, fault in declared.faults.items()]
    if not rows:
        return
    cells = [_HEADINGS, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADINGS))]
    # A column in which nothing stands would be a heading alone.
    used = [column for column in range(len(_HEADINGS)) if any(row[column] for row in rows)]
    for row in cells:
        yield "  ".join(row[column].ljust(widths[column]) for column in used).rstrip()


def _row(server: Server, found: AttachedServer | None) -> tuple[str, ...]:
    if found is None:
        return server.name, state_of(server), server.target, "", ""
    numbers = {
        "changed": found.held, "refused": found.refused, "prompts": found.prompts,
        "resources": found.resources, "view problems": len(found.view_problems),
        "dropped": found.dropped,
    }  # fmt: skip
    shown = [_count(found.tools, "tools"), *(_count(n, what) for what, n in numbers.items() if n)]
    shown += ["stale"] if found.stale else []
    row = (server.name, found.state, server.target, ", ".join(shown), found.problem)
    return tuple(printable(cell, one_line=True) for cell in row)


def _count(number: int, things: str) -> str:
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


def notices(declared: Declared, status: StatusReply | None, data: Path) -> Iterator[str]:
    """What is to be done, one line each."""
    if declared.faults:
        yield "warning: a running stack keeps the last file without a fault; correct or remove it"
    if not declared.servers and not declared.faults:
        yield "no server is attached; attach one: searchbus attach add --help"
    elif status is None:
        yield not_running(data)
    if status is None:
        return
    if status.file_problem:
        yield f"warning: {status.file_problem}"
    if status.unconfined:
        yield f"warning: commands can reach what searchbus can: {status.unconfined}"
    for found in status.servers:
        if found.held:
            yield f"definitions of {found.name} changed; see: searchbus attach diff {found.name}"
        if found.refused:
            yield (
                f"{found.refused} of what {found.name} offers cannot be listed; why: "
                f"searchbus attach show {found.name}"
            )
    for view in status.views:
        for problem in view.problems:
            yield f"view problem of {view.name}: {problem}"


def not_running(data: Path) -> str:
    """Why nothing is known of the state of servers."""
    from searchbus_runtime import find_bus

    if find_bus(data) is None:
        return no_stack(data)
    return (
        "The service attach does not run on this bus. searchbus up starts it within seconds once "
        "the file of servers is there."
    )


def shown_server(server: Server, view: Any, found: AttachedServer | None) -> Iterator[str]:
    """The keys of a server and of its view, its state and its tools, by what the service says of
    it, if anything."""
    for key, value in masked(server).items():
        if isinstance(value, dict):
            for name, inner in value.items():
                yield f"{key}: {name}={_word(inner)}"
        else:
            yield f"{key}: {_word(value)}"
    for key, value in view.items():
        yield f"view.{key}: {json.dumps(value)}"
    if found is None:
        yield f"state: {state_of(server)}"
        return
    for key in ("state", "problem", "server_info", "protocol", "restarts", "dropped", "in_flight"):
        value = getattr(found, key)
        if value != "":
            yield f"{key}: {value}"
    for problem in found.view_problems:
        yield f"view problem: {problem}"
    for tool in found.tool_list:
        yield f"  {tool.name}  {tool.listed_as or 'not listed'}  {tool.problem}".rstrip()


def _word(value: Any) -> str:
    """A value as one writes it in a shell."""
    if isinstance(value, list | tuple):
        return shlex.join(value)
    return value if isinstance(value, str) else json.dumps(value)


def shown_selection(selection: Selection, status: StatusReply | None, *, as_json: bool) -> str:
    """What there is to say of a view of several servers, as lines or as JSON."""
    keys = msgspec.to_builtins(selection)
    views = status.views if status is not None else ()
    found = next((view for view in views if view.name == selection.name), None)
    tools, problems = (None, ()) if found is None else (found.tools, found.problems)
    if as_json:
        state: dict[str, Any] = {"state": _NOT_RUNNING}
        if tools is not None:
            state = {"tools": tools, "problems": problems}
        return json.dumps({"view": keys, **state})
    lines = [
        f"{key}: {value if key == 'name' else json.dumps(value)}" for key, value in keys.items()
    ]
    lines += [f"state: {_NOT_RUNNING}"] if tools is None else [f"tools: {len(tools)}"]
    lines += [f"view problem: {problem}" for problem in problems]
    lines += [f"  {tool}" for tool in tools or ()]
    return "\n".join(printable(line, one_line=True) for line in lines)


def masked(server: Server) -> dict[str, Any]:
    """The keys of a server; of those that hold secrets only what is a `${NAME}`."""
    keys: dict[str, Any] = msgspec.to_builtins(server)
    for key in ("env", "headers"):
        if key in keys:
            keys[key] = {name: _masked(text) for name, text in keys[key].items()}
    if server.auth is not None and server.auth.client_secret:
        keys["auth"]["client_secret"] = _masked(server.auth.client_secret)
    if "url" in keys:
        keys["url"] = server.target
    return keys


def _masked(text: str) -> str:
    return text if _VARIABLE.fullmatch(text) else _MASK
