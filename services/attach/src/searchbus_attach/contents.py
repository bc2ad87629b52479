"""The requests for a server's resources and prompts: they are asked of the server at each request.

They only read, so that one whose connection ended is sent again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from searchbus_bus import Call
from searchbus_contracts import ErrorCode, Fault, ResourceReadReply, ResourceReadRequest
from searchbus_contracts.prompts import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
)

from .addresses import own_uri
from .content_replies import completion_of, prompt_of, resource_of
from .describe_contents import ServerContents
from .metrics import record_call
from .session import ServerSession
from .upstream import Upstream

__all__ = ["Contents"]

T = TypeVar("T")


class Contents:
    """Reads the resources of one server, and fills in its prompts.

    Args:
        upstream_of: the connection for a call.
        offered: what is offered now.
    """

    def __init__(
        self,
        server: str,
        upstream_of: Callable[[Call], Upstream],
        offered: Callable[[], ServerContents],
    ) -> None:
        self._server = server
        self._upstream_of = upstream_of
        self._offered = offered

    async def read(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """Read a resource of the server.

        Raises:
            Fault: not_found, or why the server cannot be asked.
        """
        uri = own_uri(self._server, request.uri)
        if uri is None or not self._offered().templates:
            raise Fault(ErrorCode.NOT_FOUND, "There is no such resource.")
        raw = await self._ask(call, lambda session: session.read(uri))
        return resource_of(self._server, raw)

    async def get_prompt(self, call: Call, request: PromptGetRequest) -> PromptGetReply:
        """Fill in a prompt of the server.

        Raises:
            Fault: not_found, or why the server cannot be asked.
        """
        name = self._own_name(request.prompt)
        raw = await self._ask(call, lambda session: session.fill(name, request.arguments))
        links = bool(self._offered().templates)
        return prompt_of(self._server, raw, links=links)

    async def complete(self, call: Call, request: CompleteRequest) -> CompleteReply:
        """Ask the server for values of an argument.

        Raises:
            Fault: not_found, or why the server cannot be asked.
        """
        uri_template = own_uri(self._server, request.name)
        if uri_template is not None:
            reference = {"type": "ref/resource", "uri": uri_template}
        else:
            reference = {"type": "ref/prompt", "name": self._own_name(request.name)}
        argument = {"name": request.argument, "value": request.value}
        raw = await self._ask(
            call, lambda session: session.suggest(reference, argument, request.arguments)
        )
        return completion_of(self._server, raw)

    def _own_name(self, prompt: str) -> str:
        name = self._offered().own_names.get(prompt)
        if name is None:
            raise Fault(ErrorCode.NOT_FOUND, f"{self._server} has no such prompt any more.")
        return name

    async def _ask(self, call: Call, send: Callable[[ServerSession], Awaitable[T]]) -> T:
        missing = call.actor.missing(self._offered().required_roles)
        if missing is not None:
            raise Fault(ErrorCode.FORBIDDEN, f"The role {missing} is needed.")
        started_s, code = time.perf_counter(), "cancelled"
        try:
            reply = await self._upstream_of(call).request(call, lambda session, _: send(session))
            code = "ok"
            return reply
        except Fault as fault:
            code = fault.code
            raise
        finally:
            record_call(time.perf_counter() - started_s, self._server, code)
