"""What the service that attaches MCP servers says about them: `attach.status` (§14)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .tools import Name

__all__ = [
    "ATTACHED_BY",
    "AttachedServer",
    "AttachedTool",
    "AttachedView",
    "ServerState",
    "StatusReply",
    "StatusRequest",
]

ATTACHED_BY = "dev.searchbus/attached-by"
"""The key in `_meta` of a request by which the service asks a searchbus whether it is its own: the
instance of the worker that asks. An edge refuses it where that worker is on its bus; the error's
data has the same key."""

ServerState = Literal["starting", "up", "idle", "down"]


class StatusRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for the state of attached servers."""

    server: Annotated[Name | None, Meta(description="Only this one, with its tools.")] = None


class AttachedTool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool of an attached server."""

    name: Annotated[str, Meta(description="As the server names it.")]
    listed_as: Annotated[str, Meta(description="Its name on /mcp; empty while it is not listed.")]
    problem: Annotated[
        str, Meta(description="Why it is not listed, or why calls are refused; empty otherwise.")
    ] = ""
    sha256: Annotated[str, Meta(description="Of the held definition; empty otherwise.")] = ""


class AttachedServer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one server."""

    name: Name
    state: ServerState
    target: Annotated[str, Meta(description="The command's program, or the URL without secrets.")]
    tools: Annotated[int, Meta(ge=0, description="How many are listed.")] = 0
    prompts: Annotated[int, Meta(ge=0, description="How many are listed.")] = 0
    resources: Annotated[int, Meta(ge=0, description="How many are listed.")] = 0
    held: Annotated[int, Meta(ge=0, description="Definitions that wait for approval.")] = 0
    refused: Annotated[int, Meta(ge=0, description="Tools and others that cannot be listed.")] = 0
    stale: Annotated[
        bool, Meta(description="The list is the last one that the server sent, which is away now.")
    ] = False
    problem: Annotated[str, Meta(description="Why it is not up; empty otherwise.")] = ""
    view_problems: Annotated[
        tuple[str, ...], Meta(description="What of its view has no effect, and why.")
    ] = ()
    server_info: Annotated[str, Meta(description="Name and version that it states.")] = ""
    protocol: Annotated[str, Meta(description="The revision of MCP that was negotiated.")] = ""
    restarts: Annotated[int, Meta(ge=0, description="Sessions that were lost.")] = 0
    dropped: Annotated[int, Meta(ge=0, description="Messages that it sent beyond its budget.")] = 0
    in_flight: Annotated[int, Meta(ge=0)] = 0
    tool_list: tuple[AttachedTool, ...] = ()


class AttachedView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A selection of tools across servers, which is a toolset."""

    name: Name
    tools: Annotated[tuple[str, ...], Meta(description="The names of its tools.")] = ()
    problems: Annotated[
        tuple[str, ...], Meta(description="What of it has no effect, and why.")
    ] = ()


class StatusReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The servers of the file, as one worker of the service sees them."""

    servers: tuple[AttachedServer, ...] = ()
    views: tuple[AttachedView, ...] = ()
    file_problem: Annotated[
        str, Meta(description="Why the file cannot be used; the last valid one counts then.")
    ] = ""
    unconfined: Annotated[
        str, Meta(description="Why commands are not confined; empty where they are.")
    ] = ""
