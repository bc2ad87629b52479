"""The service that attaches MCP servers: what it says about them, `attach.status`, and what an
operator changes, `attach.manage` (§14)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .codec import doc
from .tools import Name

ATTACHED_BY = "dev.searchbus/attached-by"
"""The key in `_meta` of a request by which the service asks a searchbus whether it is its own: the
instance of the worker that asks. An edge refuses it where that worker is on its bus; the error's
data has the same key."""

ServerState = Literal["starting", "up", "idle", "down"]


class StatusRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for the state of attached servers."""

    server: Annotated[Name | None, doc("Only this one, with its tools.")] = None


class AttachedTool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool of an attached server."""

    name: Annotated[str, doc("As the server names it.")]
    listed_as: Annotated[str, doc("Its name on /mcp; empty while it is not listed.")]
    problem: Annotated[
        str, doc("Why it is not listed, or why calls are refused; empty otherwise.")
    ] = ""
    sha256: Annotated[str, doc("Hash of the held definition; empty otherwise.")] = ""


class AttachedServer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one server."""

    name: Name
    state: ServerState
    target: Annotated[str, doc("The command's program, or the URL without secrets.")]
    tools: Annotated[int, doc("How many are listed.", ge=0)] = 0
    prompts: Annotated[int, doc("How many are listed.", ge=0)] = 0
    resources: Annotated[int, doc("How many are listed.", ge=0)] = 0
    held: Annotated[int, doc("Definitions that wait for approval.", ge=0)] = 0
    refused: Annotated[int, doc("Tools and others that cannot be listed.", ge=0)] = 0
    stale: Annotated[
        bool, doc("The list is the last one that the server sent, which is away now.")
    ] = False
    problem: Annotated[str, doc("Why it is not up; empty otherwise.")] = ""
    view_problems: Annotated[tuple[str, ...], doc("What of its view has no effect, and why.")] = ()
    server_info: Annotated[str, doc("Name and version that it states.")] = ""
    protocol: Annotated[str, doc("The revision of MCP that was negotiated.")] = ""
    restarts: Annotated[int, doc("Sessions that were lost.", ge=0)] = 0
    dropped: Annotated[int, doc("Messages that it sent beyond its budget.", ge=0)] = 0
    in_flight: Annotated[int, Meta(ge=0)] = 0
    tool_list: tuple[AttachedTool, ...] = ()


class AttachedView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A selection of tools across servers, which is a toolset."""

    name: Name
    tools: Annotated[tuple[str, ...], doc("The names of its tools.")] = ()
    problems: Annotated[tuple[str, ...], doc("What of it has no effect, and why.")] = ()


class StatusReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The servers of the file, as one worker of the service sees them."""

    servers: tuple[AttachedServer, ...] = ()
    views: tuple[AttachedView, ...] = ()
    file_problem: Annotated[
        str, doc("Why the file cannot be used; the last valid one counts then.")
    ] = ""
    unconfined: Annotated[str, doc("Why commands are not confined; empty where they are.")] = ""


class ManageRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Change what is attached, or read what a server printed; for operators."""

    action: Literal[
        "diff", "approve", "refuse", "restart", "log", "add", "remove", "waiting", "allow", "deny",
        "view", "preview", "save_view",
    ]  # fmt: skip
    servers: Annotated[
        tuple[Name, ...], doc("Which; of diff, approve, refuse, log and those of views one.")
    ] = ()
    digits: Annotated[
        tuple[str, ...],
        doc(
            "With approve and refuse: the definitions, by the digits of their hashes. With allow "
            "and deny: the calls that wait, by their ids. With save_view: the stamp of the view "
            "that it replaces."
        ),
    ] = ()
    text: Annotated[
        str,
        doc(
            "With add: the JSON of a desktop host's mcpServers. With preview and save_view: the "
            "keys of the view, as TOML.",
            max_length=262_144,
        ),
    ] = ""


class HeldDefinition(Struct, frozen=True, kw_only=True):
    """A definition that differs from the approved one."""

    name: str
    digits: Annotated[str, doc("They name this very definition.")]
    reasons: tuple[str, ...]
    lines: Annotated[tuple[str, ...], doc("The difference, line by line.")]
    refused: Annotated[bool, doc("An operator refused it: it waits for nobody.")] = False


class WaitingCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that waits until a person approves it."""

    id: str
    server: Name
    tool: str
    caller: Annotated[str, doc("The subject of the caller.")]
    arguments: Annotated[str, doc("JSON; cut where it is long.")]
    since_s: Annotated[float, doc("Seconds of the epoch.")]


class ViewedTool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool of a server as callers see it by a view."""

    name: Annotated[str, doc("Without the view; its patterns are over these.")]
    listed_as: Annotated[str, doc("Its name on /mcp; empty: it is not listed.")] = ""
    title: str = ""
    description: Annotated[str, doc("Cut where it is long.")] = ""
    arguments: Annotated[tuple[str, ...], doc("The names of those that callers see.")] = ()
    required_roles: tuple[str, ...] = ()
    annotations: Annotated[tuple[str, ...], doc("The names of those that hold.")] = ()
    changes: Annotated[tuple[str, ...], doc("What differs from what callers see now.")] = ()


class ViewPreview(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What callers see of a server by a view."""

    tools: Annotated[tuple[ViewedTool, ...], doc("Those that change come first.")] = ()
    more: Annotated[int, doc("Tools that are left out here.", ge=0)] = 0
    changed: Annotated[int, doc("How many differ from what callers see now.", ge=0)] = 0
    problems: Annotated[tuple[str, ...], doc("What of the view has no effect, and why.")] = ()


class ManageReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was done."""

    done: Annotated[tuple[str, ...], doc("Names of the servers or definitions.")] = ()
    left_out: Annotated[dict[str, str], doc("With add: server → why it is not attached.")] = {}
    held: tuple[HeldDefinition, ...] = ()
    waiting: Annotated[tuple[WaitingCall, ...], doc("With waiting: the oldest first.")] = ()
    log: Annotated[str, doc("With log: the last lines of its standard error.")] = ""
    view: Annotated[ViewPreview, doc("With view, preview and save_view.")] = ViewPreview()
    text: Annotated[str, doc("With view: its keys, as TOML.")] = ""
    stamp: Annotated[str, doc("With view, preview and save_view: names the view in the file.")] = ""
