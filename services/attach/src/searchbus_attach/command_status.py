"""What `searchbus attach list` and `show` print: the keys of the file, the state of the service."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec

from searchbus_bus import connect
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.attach import AttachedServer, StatusReply, StatusRequest
from searchbus_runtime import BusAddress, find_bus
from searchbus_runtime.printable import printable

from .servers import Server
from .views import Selection

__all__ = ["ask_status", "masked", "shown_selection", "state_of", "summary"]

_TIMEOUT_S = 10.0
_MASK = "***"
_VARIABLE = re.compile(r"\$\{[^{}]*\}")


def ask_status(data: Path, server: str | None = None) -> StatusReply | None:
    """What the running service says; None where none is running.

    Raises:
        Fault: it does not answer, or the bus cannot be reached.
    """
    address = find_bus(data)
    return None if address is None else asyncio.run(_ask(address, server))


async def _ask(address: BusAddress, server: str | None) -> StatusReply | None:
    bus = await connect(address.url, name="cli", **address.options)
    try:
        # Without an actor: no role is needed, and in the service's container the command has its
        # keys, which cannot sign one.
        return await bus.request(
            bus.subjects.endpoint("attach", "status"), StatusRequest(server=server), StatusReply,
            service="attach", timeout_s=_TIMEOUT_S,
        )  # fmt: skip
    except Fault as fault:
        if fault.code == ErrorCode.UNAVAILABLE:
            return None
        raise
    finally:
        await bus.close()


def state_of(server: Server, found: AttachedServer | None = None) -> str:
    """In a word or two.

    Args:
        found: what the service says of it; None where it says nothing.
    """
    if found is not None:
        return found.state
    return "not running" if server.enabled else "disabled"


def summary(server: Server, found: AttachedServer | None) -> str:
    """One line; `found` as for `state_of`."""
    line = f"{server.name}  {state_of(server, found)}  {server.target}"
    if found is None:
        return line
    numbers = {
        "changed": found.held, "refused": found.refused, "prompts": found.prompts,
        "resources": found.resources, "view problems": len(found.view_problems),
    }  # fmt: skip
    shown = [f"{found.tools} tools", *(f"{n} {what}" for what, n in numbers.items() if n)]
    shown += ["stale"] if found.stale else []
    return f"{line}  {', '.join(shown)}  {found.problem}".rstrip()


def shown_selection(selection: Selection, status: StatusReply | None, *, as_json: bool) -> str:
    """What there is to say of a view of several servers, as lines or as JSON."""
    keys = msgspec.to_builtins(selection)
    views = status.views if status is not None else ()
    tools = next((view.tools for view in views if view.name == selection.name), None)
    if as_json:
        state = {"state": "not running"} if tools is None else {"tools": tools}
        return json.dumps({"view": keys, **state})
    lines = [
        f"{key}: {value if key == 'name' else json.dumps(value)}" for key, value in keys.items()
    ]
    lines += ["state: not running"] if tools is None else [f"tools: {len(tools)}"]
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
