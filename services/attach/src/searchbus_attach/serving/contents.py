"""The requests for a server's resources and prompts: they are asked of the server at each request.

They only read, so that one whose connection ended is sent again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeVar

from searchbus_bus import Call
from searchbus_contracts import ErrorCode, Fault, ResourceReadReply, ResourceReadRequest
from searchbus_contracts.resources import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
)

from ..definitions.addresses import own_uri
from ..definitions.content_replies import completion_of, prompt_of, resource_of
from ..definitions.describe_contents import ServerContents
from ..metrics import measured_call
from ..sessions.handover import Onward
from ..upstream.session import ServerSession
from ..upstream.upstream import Upstream

__all__ = ["Contents"]

T = TypeVar("T")


class Do(Protocol):
    """Does a call with the connection that is for it; see `Sessions.do`."""

    async def __call__(
        self, call: Call, here: Callable[[Upstream], Awaitable[T]], onward: Onward[T], /
    ) -> T:
        """Do a call; raises Fault."""
        ...


class Contents:
    """Reads the resources of one server, and fills in its prompts.

    Args:
        offered: what is offered now.
    """

    def __init__(self, server: str, do: Do, offered: Callable[[], ServerContents]) -> None:
        self._server = server
        self._do = do
        self._offered = offered

    async def read(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """Read a resource of the server.

        Raises:
            Fault: not_found, or why the server cannot be asked.
        """
        uri = own_uri(self._server, request.uri)
        if uri is None or not self._offered().templates:
            raise Fault(
                ErrorCode.NOT_FOUND,
                "There is no such resource. Take a URI from the list of resources.",
            )
        return await self._ask(
            call,
            lambda session: session.read(uri),
            lambda raw: resource_of(self._server, raw),
            Onward("resource", self._server, "read", request, ResourceReadReply),
        )

    async def get_prompt(self, call: Call, request: PromptGetRequest) -> PromptGetReply:
        """Fill in a prompt of the server.

        Raises:
            Fault: not_found, or why the server cannot be asked.
        """
        name = self._own_name(request.prompt)
        return await self._ask(
            call,
            lambda session: session.fill(name, request.arguments),
            lambda raw: prompt_of(self._server, raw, links=bool(self._offered().templates)),
            Onward("prompt", self._server, "get", request, PromptGetReply),
        )

    async def complete(self, call: Call, request: CompleteRequest) -> CompleteReply:
        """Ask the server for values of an argument.

        Raises:
            Fault: not_found, or why the server cannot be asked.
        """
        family: Literal["resource", "prompt"]
        uri_template = own_uri(self._server, request.name)
        if uri_template is not None:
            if not self._offered().templates:
                raise Fault(
                    ErrorCode.NOT_FOUND,
                    "There is no such resource. Take a URI from the list of resources.",
                )
            family, reference = "resource", {"type": "ref/resource", "uri": uri_template}
        else:
            name = self._own_name(request.name)
            family, reference = "prompt", {"type": "ref/prompt", "name": name}
        argument = {"name": request.argument, "value": request.value}
        return await self._ask(
            call,
            lambda session: session.suggest(reference, argument, request.arguments),
            lambda raw: completion_of(self._server, raw),
            Onward(family, self._server, "complete", request, CompleteReply),
        )

    def _own_name(self, prompt: str) -> str:
        name = self._offered().own_names.get(prompt)
        if name is None:
            raise Fault(
                ErrorCode.NOT_FOUND,
                f"{self._server} has no such prompt any more. List the prompts again.",
            )
        return name

    async def _ask(
        self,
        call: Call,
        send: Callable[[ServerSession], Awaitable[Any]],
        read: Callable[[Any], T],
        onward: Onward[T],
    ) -> T:
        missing = call.actor.missing(self._offered().required_roles)
        if missing is not None:
            raise Fault(
                ErrorCode.FORBIDDEN, f"The role {missing} is needed. Ask an administrator for it."
            )

        async def here(upstream: Upstream) -> T:
            with measured_call(self._server):
                return read(await upstream.request(call, lambda session, _: send(session)))

        return await self._do(call, here, onward)
