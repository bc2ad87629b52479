"""What waits for a person, for the console and for `searchbus doctor`: the same in both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from searchbus_contracts import LivePart
from searchbus_contracts.attach import AttachedServer, StatusReply


class Wait(NamedTuple):
    """One thing, of kind held, attached_held, failed, sign_in, key or file; `command` does the same
    in a terminal, or shows more (empty: nothing does)."""

    kind: str
    name: str
    text: str
    command: str = ""


def waits_of_part(part: LivePart) -> Iterator[Wait]:
    """What a part of a process waits for."""
    if part.kind == "key" and part.state == "open":
        yield Wait("key", part.name, "The provider refuses this key, or its plan is used up.")


def waits_of_attached(status: StatusReply) -> Iterator[Wait]:
    """What attached servers and their file wait for."""
    for server in status.servers:
        yield from _waits_of(server)
    if status.file_problem:
        yield Wait("file", "attach.toml", status.file_problem)


def _waits_of(server: AttachedServer) -> Iterator[Wait]:
    name = server.name
    if server.held:
        many = "a definition" if server.held == 1 else f"{server.held} definitions"
        text = f"{name} changed {many}."
        yield Wait("attached_held", name, text, f"searchbus attach diff {name}")
    if "attach login" in server.problem:
        yield Wait("sign_in", name, server.problem, f"searchbus attach login {name}")
    elif server.state == "down":
        text = f"{name}: {server.problem or 'it is down.'}"
        yield Wait("failed", name, text, f"searchbus attach show {name}")
