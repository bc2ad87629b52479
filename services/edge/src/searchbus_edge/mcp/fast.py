"""The fast way: tools/call, the lists and ping without the SDK's types.

It serves a request only where it understands every field. Everything else (other methods, unknown
parameters, input responses, extensions, odd headers) is left to the kernel, which also says what is
wrong with a malformed request. Results have what the SDK's serialization has for the same reply,
which a test compares.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import msgspec
from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    ErrorData,
    methods,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Raw, Struct, field
from pydantic import ValidationError

from searchbus_contracts import Content, Fault, ToolEvent, decode, encode
from searchbus_contracts.tools import EmbeddedResource

from ..catalog.view import MadeOf
from ..http.answer import Answer
from ..http.body import UNREADABLE
from ..http.head import Received
from ..tasks.store import EXTENSION as TASKS
from ..tools.call import ForwardedEvents, ToolRequest, log_data
from ..tools.faults import shown_error
from ..tools.reply import Reply
from ..tools.resolve import Target
from ..tools.telemetry import MessageSpan, Tracing
from .client import VIEWS, capability_names
from .kernel import Called, Exchange, Failed, Kernel
from .messages import RequestId, RpcRequest, encode_error, encode_result
from .servers import EndpointServer

REVISIONS = frozenset({"2025-06-18", "2025-11-25", *MODERN_PROTOCOL_VERSIONS})
"""Whose results of tools/call are alike; older ones lack structured content."""
_PAGES = frozenset({"tools/list", "prompts/list", "resources/templates/list", "ping"})
"""Methods whose results are kept as bytes; that of ping is empty."""
_MAX_PAGES = 512
_MAX_ENVELOPE_BYTES = 4096
"""Size of a client's name and capabilities: larger ones are not kept, so the kernel reads them."""
_NO_RAW = Raw(b"")
_RESERVED = "io.modelcontextprotocol/"


class ParamsMeta(Struct, forbid_unknown_fields=True):
    """What the fast way understands of `_meta`."""

    revision: str | None = field(name=PROTOCOL_VERSION_META_KEY, default=None)
    client_info: Raw = field(name=CLIENT_INFO_META_KEY, default=_NO_RAW)
    capabilities: Raw = field(name=CLIENT_CAPABILITIES_META_KEY, default=_NO_RAW)
    progress_token: int | str | None = field(name="progressToken", default=None)
    traceparent: str | None = None
    tracestate: str | None = None


class _CallParams(Struct, forbid_unknown_fields=True):
    name: str
    arguments: Raw = Raw(b"{}")
    meta: ParamsMeta = field(name="_meta", default_factory=ParamsMeta)


class _PageParams(Struct, forbid_unknown_fields=True):
    cursor: str | None = None
    meta: ParamsMeta = field(name="_meta", default_factory=ParamsMeta)


_call_params = msgspec.json.Decoder(_CallParams)
_page_params = msgspec.json.Decoder(_PageParams)


class FastWay:
    """The fast way of one endpoint; `kernel` makes each page once, and renders all else."""

    def __init__(self, server: EndpointServer, kernel: Kernel, tracing: Tracing) -> None:
        self._server = server
        self._kernel = kernel
        self._calls = server.calls
        self._tracing = tracing
        self._stamp: dict[str, Any] = server.mcp.server_info_stamp
        self._pages: MadeOf[tuple[Any, ...], Raw] = MadeOf(_MAX_PAGES)

    async def serve(
        self, received: Received, request: RpcRequest, answer: Answer, target: Target | None
    ) -> bool:
        """Serve a request; False, and nothing done, where that is the kernel's part."""
        if target is not None:
            return await self._call(received, request, answer, target)
        return request.method in _PAGES and await self._page(received, request, answer)

    async def _call(
        self, received: Received, request: RpcRequest, answer: Answer, target: Target
    ) -> bool:
        head = received.head
        params = decode_params(_call_params, request)
        if params is None or head.revision not in REVISIONS:
            return False
        capabilities = client_of(received, request, params.meta, params.name)
        # Arguments that the schema mirrors into headers are compared by the kernel, and a call that
        # may become a task begins there.
        if capabilities is None or TASKS in capabilities:
            return False
        if target.listed and target.listed.mirrors_arguments:
            return False
        try:
            arguments = msgspec.json.decode(params.arguments)
        except UNREADABLE:
            return False
        if not isinstance(arguments, dict):
            return False
        modern = head.modern
        send = partial(_send, received, answer, params.meta.progress_token)
        try:
            with span_of(self._tracing, received, request, params.meta) as outcome:
                async with ForwardedEvents(send) as on_event:
                    try:
                        served = await self._calls.call(
                            ToolRequest(
                                received.actor, target, arguments,
                                raw_arguments=params.arguments, capabilities=capabilities,
                                on_event=on_event,
                            )
                        )  # fmt: skip
                    except Exception as error:
                        # MCP errors only leave: what went wrong inside is logged, not shown.
                        raise shown_error(error, "tools/call") from None
                if served.reply.is_error:
                    outcome.error = "tool_error"
        except MCPError as raised:
            await finish_error(answer, request, raised.error, modern=modern)
            return True
        if is_plain(served.reply):
            stamp = self._stamp if modern else None
            await answer.finish(*encode_reply(request.id, served.reply, stamp))
        else:
            called = Called.of(received, target, served)
            await self._kernel.request(called, request, answer)
        return True

    def ready(self, received: Received, request: RpcRequest) -> bytes | None:
        """The response to a request for a page that was made before, with its span; else None."""
        place = self._place(received, request) if request.method in _PAGES else None
        if place is None:
            return None
        kept, key, meta = place
        page = kept.get(key)
        if page is None:
            return None
        span_of(self._tracing, received, request, meta).end()
        return encode_result(request.id, page)

    async def _page(self, received: Received, request: RpcRequest, answer: Answer) -> bool:
        """A page: made by the kernel once per catalogue, cursor and class of caller."""
        ready = self.ready(received, request)  # of a message in a batch
        if ready is not None:
            await answer.finish(ready)
            return True
        place = self._place(received, request)
        result = await self._kernel.result(received, request) if place is not None else None
        if place is None or result is None:
            return False
        if isinstance(result, Failed):
            await answer.finish(result.body, status=result.status)
            return True
        kept, key, _ = place
        page = kept[key] = Raw(msgspec.json.encode(result))
        await answer.finish(encode_result(request.id, page))
        return True

    def _place(
        self, received: Received, request: RpcRequest
    ) -> tuple[dict[tuple[Any, ...], Raw], tuple[Any, ...], ParamsMeta] | None:
        """The pages of the view as it is, this one's key (equal keys are answered alike), and the
        request's `_meta`; None where the kernel must look at the request."""
        params: _PageParams | None = decode_params(_page_params, request)
        # ping has no cursor: whatever text is given as one would be kept.
        if params is None or (request.method == "ping" and params.cursor is not None):
            return None
        capabilities = client_of(received, request, params.meta, None)
        if capabilities is None or VIEWS in capabilities:  # its list names views; few show them
            return None
        view = self._server.view
        key = (request.method, received.head.revision, params.cursor, view.access(received.actor))
        return self._pages.version(view), key, params.meta


def span_of(
    tracing: Tracing, received: Received, request: RpcRequest, meta: ParamsMeta
) -> MessageSpan:
    """The span of a message that the kernel does not serve."""
    head = received.head
    return tracing.message(
        request.method, head.revision or "", request.id,
        header=(head.traceparent, head.tracestate),
        meta={"traceparent": meta.traceparent, "tracestate": meta.tracestate},
    )  # fmt: skip


def decode_params(decoder: msgspec.json.Decoder[Any], request: RpcRequest) -> Any:
    """The parameters; None where they have a field that the fast way does not know."""
    try:
        return decoder.decode(request.params if len(request.params) else b"{}")
    except UNREADABLE:
        return None


def client_of(
    received: Received, request: RpcRequest, meta: ParamsMeta, name: str | None
) -> tuple[str, ...] | None:
    """Names of the capabilities that the client declared; None where the kernel must look."""
    head = received.head
    if not head.modern:
        plain = meta.revision is None and not len(meta.client_info) and not len(meta.capabilities)
        return () if plain else None
    if (
        head.revision not in MODERN_PROTOCOL_VERSIONS
        or head.revision != meta.revision
        or head.method != request.method
        or (name is not None and head.name != name)
        or head.repeated
    ):
        return None
    if len(meta.client_info) + len(meta.capabilities) > _MAX_ENVELOPE_BYTES:
        return None
    return _capabilities(head.revision, bytes(meta.client_info), bytes(meta.capabilities))


async def finish_error(
    answer: Answer, request: RpcRequest, error: ErrorData, *, modern: bool
) -> None:
    """Answer with a JSON-RPC error."""
    status = ERROR_CODE_HTTP_STATUS.get(error.code, 200) if modern else 200
    body = encode_error(request.id, error.code, error.message, error.data)
    await answer.finish(body, status=status)


@lru_cache(maxsize=1024)
def _capabilities(revision: str, info: bytes, capabilities: bytes) -> tuple[str, ...] | None:
    """Names of declared capabilities; None for an envelope that the SDK would refuse."""
    try:
        meta = {
            PROTOCOL_VERSION_META_KEY: revision,
            CLIENT_CAPABILITIES_META_KEY: decode(capabilities, Any),
        }
        if info:
            meta[CLIENT_INFO_META_KEY] = decode(info, Any)
        methods.validate_client_request("tools/call", revision, {"name": "x", "_meta": meta})
    except (ValidationError, ValueError, Fault):
        return None
    connection = Connection.from_envelope(
        revision, meta.get(CLIENT_INFO_META_KEY), meta[CLIENT_CAPABILITIES_META_KEY]
    )
    return capability_names(connection.client_capabilities)


async def _send(
    received: Received, answer: Answer, token: int | str | None, event: ToolEvent
) -> None:
    """Send an event of a worker; `token`: the client's for progress, if any."""
    exchange = Exchange(received, answer, progress_token=token)
    if event.kind == "progress":
        await exchange.progress(event.progress, event.total, event.message)
    elif not received.head.modern:
        params = {"level": event.level, "data": log_data(event)}
        if event.logger is not None:
            params["logger"] = event.logger
        await exchange.notify("notifications/message", params)


def is_plain(reply: Reply) -> bool:
    """Whether `encode_reply` covers a reply."""
    if reply.input_required is not None:
        return False
    if reply.meta is not None and not all(
        "/" in key and not key.startswith(_RESERVED) for key in reply.meta
    ):
        return False
    return all(map(_is_plain, reply.content))


def _is_plain(block: Content) -> bool:
    if block.annotations is not None or block.meta is not None:
        return False
    if isinstance(block, EmbeddedResource):
        body = block.resource
        return (body.text is None) != (body.blob is None) and body.meta is None
    return True


def encode_reply(
    request_id: RequestId, reply: Reply, server_info: dict[str, Any] | None
) -> list[bytes]:
    """The JSON-RPC response, in parts; `server_info` for results of 2026-07-28, None before."""
    parts = [b'{"jsonrpc":"2.0","id":%b,"result":{"content":' % encode(request_id)]
    if reply.text is None:
        parts.append(encode(reply.content))
    else:
        # Compact JSON has no other letters that must be escaped within a text of JSON.
        text = reply.text.replace(b"\\", rb"\\").replace(b'"', rb"\"")
        parts += (b'[{"type":"text","text":"', text, b'"}]')
    if reply.structured is not None:
        parts += (b',"structuredContent":', reply.structured)
    rest: dict[str, Any] = {"isError": reply.is_error}
    meta = reply.meta
    if server_info is not None:
        rest["resultType"] = "complete"
        given = {key: value for key, value in (meta or {}).items() if value is not None}
        meta = {**given, SERVER_INFO_META_KEY: server_info}
    if meta is not None:
        rest["_meta"] = meta
    parts.append(b",%b}" % encode(rest)[1:])
    return parts
