"""A session with a server, whose results stay the JSON that the server sent.

The SDK parses the result of tools/list as a whole, so that one malformed tool would lose the
others, and fails a good answer to tools/call that does not fit the tool's own output schema. Both
are read here instead. Sampling, elicitation and roots are not offered to servers.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import anyio
import msgspec
from mcp import ClientSession, MCPError
from mcp.client._probe import negotiate_auto
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.inbound import MCP_NAME_HEADER, X_MCP_HEADER_KEY, encode_header_value
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Implementation,
    ListToolsResult,
    Tool,
)
from pydantic import ValidationError

from searchbus_bus.tasks import Background
from searchbus_contracts import VERSION, ErrorCode, Fault
from searchbus_contracts.attach import ATTACHED_BY

from ..definitions.describe import ListedContents, ServerTools
from ..definitions.extensions import SKILLS
from ..definitions.text import clean_line
from ..errors import ItselfError, ServerError
from ..transports.budget import VALUE_COST_BYTES
from ..transports.direct import DirectRequests, NotDirectError
from ..transports.messages import MAX_DEPTH, MessageStream, count_values, is_deeper, sent_code

log = logging.getLogger("searchbus.attach")
MAX_PAGES = 200
MAX_LISTED = 20_000
MAX_LIST_BYTES = 64 * 2**20
MAX_HANDSHAKE_VALUES = 5_000
_HANDSHAKE = ("server/discover", "initialize")
T = TypeVar("T")
CLIENT = Implementation(name="searchbus", version=VERSION)
TASKS = "io.modelcontextprotocol/tasks"
"""The extension (SEP-2663)."""
MIN_PAUSE_S, MAX_PAUSE_S = 0.2, 10.0
"""Between two questions about a task, whatever the server suggests."""
_CANCEL_TIMEOUT_S = 1.0
_MAX_ID_CHARS = 1024
"""It is sent with each question, in the head of the request as well."""
Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ServerRequest(Generic[T]):
    """A caller's request of a server: how it is sent to the server, or on to another worker.

    Args:
        method: the method of MCP.
        params: makes the parameters once there is a connection, of the tools that it has; raises
            Fault where the request must not be sent.
        reply: makes the reply of a result as the server sent it, in a thread where that is large;
            raises Fault.
        family, server, name: parts of the subject on the bus.
        message, reply_type: the request on the bus, and the type of its reply.
        may_repeat: whether it can be sent again where it may have been done.
    """

    method: str
    params: Callable[[ServerTools], dict[str, Any]]
    reply: Callable[[Any], T]
    family: Literal["tool", "resource", "prompt"]
    server: str
    name: str
    message: Any
    reply_type: type[T]
    may_repeat: bool = True


class _Dispatcher(JSONRPCDispatcher[Any]):
    """The SDK's, with a limit for the answers of the handshake, which pydantic parses on the loop:
    it takes half a second for as many values as another answer may have."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, *rest: Any, **options: Any
    ) -> dict[str, Any]:
        """See JSONRPCDispatcher; raises ServerError."""
        found = await super().send_raw_request(method, params, *rest, **options)
        if method in _HANDSHAKE and count_values(msgspec.json.encode(found)) > MAX_HANDSHAKE_VALUES:
            raise ServerError(
                f"its answer to {method} has more than {MAX_HANDSHAKE_VALUES:,} values"
            )
        return found


class ServerSession(ClientSession):
    """The SDK's session; `open_session` negotiates, the methods below send requests.

    Args:
        direct: sends requests without the SDK's dispatcher.
    """

    def __init__(
        self, incoming: Any, outgoing: MessageStream[Any], *, direct: DirectRequests, **options: Any
    ) -> None:
        super().__init__(dispatcher=_Dispatcher(incoming, outgoing), **options)
        self._outgoing = outgoing
        self._direct = direct
        self._cancelling = Background()

    async def open_session(self) -> None:
        """Agree on a revision: server/discover, or initialize where the server is older.

        A server that starts slowly may answer the first after we have given it up, and then refuse
        the second; so it is asked anew.

        Raises:
            MCPError, RuntimeError, ValidationError: there is no revision that both sides support.
            ServerError: its answer is too large.
        """
        await negotiate_auto(self)
        # Servers refuse direct requests that overtake `notifications/initialized`.
        await self._outgoing.handled()

    async def check_not_itself(self, server: str, worker: str) -> None:
        """Ask a server that says it is a searchbus whether it is the one that we belong to.

        It may be reached by a command too, `searchbus stdio` or a bridge to a URL; so the question
        is a message, not an address. No other server is told the worker's id.

        Args:
            server: its name.
            worker: our instance on the bus.

        Raises:
            ItselfError: it is.
        """
        info = self.server_info
        if info is None or not info.name.startswith(CLIENT.name):
            return
        method = "ping" if self.discover_result is None else "server/discover"
        try:
            await self._send(method, {"_meta": {ATTACHED_BY: worker}})
        except MCPError as error:
            # Any other refusal says nothing about that: an older searchbus may refuse the key.
            if isinstance(error.data, dict) and error.data.get(ATTACHED_BY) == worker:
                raise ItselfError(server) from None

    async def list_all(self) -> list[Any]:
        """The tools of all pages, as the server sent them.

        Raises:
            MCPError: the server refuses, or the connection ended.
            ServerError: the pages do not end, or are too large.
        """
        offered = self.server_capabilities
        try:
            found = await self._pages("tools", "tools/list")
        except MCPError as error:
            # A server of prompts or resources only; some of those with tools do not declare them.
            declares_tools = offered is None or offered.tools is not None
            if declares_tools or error.code != METHOD_NOT_FOUND:
                raise
            found = []
        if self.discover_result is not None:
            # Thousands of tools take seconds; the calls of other servers go on meanwhile.
            await asyncio.to_thread(self._know, found)
        return found

    async def list_contents(self) -> ListedContents:
        """Prompts, resources, templates and skills of all pages, of a server that declares them.

        Raises:
            MCPError: the server refuses, or the connection ended.
            ServerError: the pages do not end.
        """
        offered = self.server_capabilities
        if offered is None:
            return ListedContents()
        prompts = resources = templates = None
        if offered.prompts is not None:
            prompts = await self._pages("prompts", "prompts/list")
        if offered.resources is not None:
            resources = await self._pages("resources", "resources/list")
            try:
                templates = await self._pages("resourceTemplates", "resources/templates/list")
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
        skills = None
        if resources is not None and SKILLS in (offered.extensions or {}):
            try:
                skills = await self._pages("skills", "skills/list")
            except MCPError as error:
                if error.code == CONNECTION_CLOSED:
                    raise
                log.warning("its skills cannot be listed: %s", clean_line(error.message, 200))
        completes = offered.completions is not None
        return ListedContents(prompts, resources, templates, completes, skills)

    async def ask(
        self, method: str, params: dict[str, Any], on_progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """Send a request; the result as the server sent it, that of a task once it has ended.

        Raises:
            MCPError: the server refuses, or the connection ended.
            Fault: invalid_argument, where the SDK could not write the parameters: that would end
                the connection, and with it the calls of all others.
        """
        if is_deeper(params, MAX_DEPTH + 1):
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                "The arguments are nested too deeply. Send flatter ones.",
            )
        result = await self._send(method, params, on_progress)
        if method == "tools/call" and result.get("resultType") == "task":
            return await task_result(self._send, result, on_progress)
        return result

    async def _pages(self, key: str, method: str) -> list[Any]:
        """All items of a list, under `key` of its results."""
        found: list[Any] = []
        cursor: str | None = None
        size_bytes = 0
        for _ in range(MAX_PAGES):
            raw = await self._send(method, {} if cursor is None else {"cursor": cursor})
            items = raw.get(key)
            found += items if isinstance(items, list) else []
            data = msgspec.json.encode(items)
            size_bytes += len(data) + VALUE_COST_BYTES * count_values(data)
            if size_bytes > MAX_LIST_BYTES:
                most_mib = MAX_LIST_BYTES // 2**20
                raise ServerError(f"its list of {key} takes more than {most_mib} MiB of memory")
            cursor = raw.get("nextCursor")
            if not isinstance(cursor, str) or len(found) > MAX_LISTED:
                return found[:MAX_LISTED]
        raise ServerError(f"its list of {key} has more than {MAX_PAGES} pages")

    def _know(self, tools: list[Any]) -> None:
        """Tell the SDK the tools that it can parse, with arguments that are sent as headers."""
        parsed = []
        for tool in tools:
            try:
                if X_MCP_HEADER_KEY.encode() in msgspec.json.encode(tool):
                    parsed.append(Tool.model_validate(tool))
            except ValidationError:
                continue  # describe.py says why it is not listed
        self._absorb_tool_listing(ListToolsResult(tools=parsed), complete=True)

    async def _send(
        self, method: str, params: dict[str, Any], on_progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """Send a request; `params` are JSON already, so they pass by the SDK's models."""
        data: dict[str, Any] = {"method": method, "params": params}
        options: CallOptions = {}
        self._stamp(data, options)
        if method.startswith("tasks/"):
            options.setdefault("headers", {})[MCP_NAME_HEADER] = encode_header_value(
                params["taskId"]
            )
        try:
            return await self._direct.request(
                method, data["params"], headers=options.get("headers", {}),
                on_progress=on_progress, on_abandon=self._cancel,
            )  # fmt: skip
        except NotDirectError:
            if on_progress is not None:
                options["on_progress"] = on_progress
            return await self._dispatcher.send_raw_request(method, data["params"], options)

    def _cancel(self, request_id: int) -> None:
        """Tell the server that nobody waits for an answer any more."""
        params = {"requestId": request_id, "reason": "caller cancelled"}
        notice = self._dispatcher.notify("notifications/cancelled", params)
        self._cancelling.start(notice)


async def task_result(
    ask: Ask, given: dict[str, Any], on_progress: ProgressFnT | None = None
) -> dict[str, Any]:
    """The result of tools/call that a task ends with; cancelling this cancels the task.

    A call that the server answers with a task stays one call here: its time limit, its progress and
    its cancellation are those of any other. The edge makes a task of its own of it, so that the
    server's id never leaves this process, and the caller's task outlives the server's connection.

    Args:
        ask: sends a method with its parameters to the server.
        given: the CreateTaskResult.
        on_progress: receives each new message of its status.

    Raises:
        MCPError: the task failed, or the server refuses a method.
        Fault: upstream_failed, it was cancelled, asks for input or is malformed.
    """
    task_id, task, steps, shown = given.get("taskId"), given, 0, None
    if not isinstance(task_id, str) or not 0 < len(task_id) <= _MAX_ID_CHARS:
        raise _unusable("began a task without a usable id")
    params = {"taskId": task_id}
    try:
        while task.get("status") == "working" or task is given:
            message = task.get("statusMessage")
            if on_progress is not None and isinstance(message, str) and message != shown:
                steps, shown = steps + 1, message
                await on_progress(steps, None, message)
            await asyncio.sleep(_pause_s(task.get("pollIntervalMs")))
            task = await ask("tasks/get", params)
    except asyncio.CancelledError:
        await _cancel(ask, params)
        raise
    if task.get("status") == "completed" and isinstance(task.get("result"), dict):
        result: dict[str, Any] = task["result"]
        return result
    if task.get("status") == "failed":
        error = task.get("error")
        error = error if isinstance(error, dict) else {}
        code, message = error.get("code"), str(error.get("message") or "")
        raise MCPError(
            sent_code(code, message) if isinstance(code, int) else INTERNAL_ERROR, message
        )
    if task.get("status") == "cancelled":
        raise _unusable("cancelled its task")
    await _cancel(ask, params)
    raise _unusable("asks for input of the client, which is not passed on")


async def _cancel(ask: Ask, params: dict[str, Any]) -> None:
    """Ask the server to end a task; whether it does is its own matter."""
    with anyio.move_on_after(_CANCEL_TIMEOUT_S, shield=True):
        try:
            await ask("tasks/cancel", params)
        except MCPError:
            return  # it has ended, or the connection has


def _pause_s(suggested_ms: Any) -> float:
    if not isinstance(suggested_ms, int | float) or not math.isfinite(suggested_ms):
        return 1.0
    return min(MAX_PAUSE_S, max(MIN_PAUSE_S, suggested_ms / 1000))


def _unusable(what: str) -> Fault:
    return Fault(
        ErrorCode.UPSTREAM_FAILED, f"The server {what}. Use another tool.", retryable=False
    )
