"""A small MCP client for the command line: single POSTs of revision 2026-07-28.

The SDK has a full client. Importing it takes half a second, more than all the rest of
`searchbus tools list`, so the command line speaks the few methods that it needs itself; by the
standard library's HTTP, since a shell waits for the names that complete a word.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from ssl import SSLError, create_default_context
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

import certifi

from searchbus_contracts import VERSION
from searchbus_runtime import data_folder, no_stack, read_state
from searchbus_runtime.wording import CommandError

REVISION = "2026-07-28"
EVENT_STREAM = "text/event-stream"
_MOST_PAGES = 1_000


class McpError(CommandError):
    """The server refused the request, or there was no MCP reply; the message says which."""


class Answer(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: Message
    body: bytes


def http_address(url: str) -> SplitResult:
    """The parts of an endpoint's URL.

    Raises:
        McpError: it is not an address of HTTP, or has a name and password.
    """
    with suppress(ValueError):  # of a port, or of an IPv6 address
        address = urlsplit(url if url.isprintable() and url.isascii() else "")
        is_http = address.scheme in ("http", "https") and address.hostname and address.port != 0
        if is_http and "@" not in address.netloc:
            # As a connection does: there is no such name as a..b.
            (address.hostname or "").encode("idna")
            return address
    raise McpError(f"{url} is not an address of an edge. Write it like http://127.0.0.1:8080.")


def post(url: str, message: Any, headers: Mapping[str, str], timeout_s: float) -> Answer:
    """Send a message to an endpoint.

    Raises:
        McpError: see `http_address`; or the certificate of the endpoint is not accepted.
        OSError, HTTPException: there is no answer.
    """
    address = http_address(url)
    assert address.hostname is not None
    connection = HTTPConnection(address.hostname, address.port, timeout=timeout_s)
    if address.scheme == "https":
        # The system's authorities, or those of SSL_CERT_FILE.
        trusted = create_default_context()
        # Python of python.org on macOS has none of its own.
        trusted.load_verify_locations(certifi.where())
        connection = HTTPSConnection(
            address.hostname, address.port, timeout=timeout_s, context=trusted
        )
    sent = {"Content-Type": "application/json", "Accept": f"application/json, {EVENT_STREAM}"}
    target = address._replace(scheme="", netloc="", fragment="").geturl()
    try:
        connection.request("POST", target, json.dumps(message).encode(), {**sent, **headers})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    except SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or "the connection was cut"
        raise McpError(
            f"{url} makes no secure connection ({why}). Name the certificate of your own authority "
            "in SSL_CERT_FILE, or write http:// where the server has none."
        ) from None
    finally:
        connection.close()


class McpHttp:
    """Sends requests to one endpoint. SEARCHBUS_TOKEN is its bearer token, where it needs one.

    Args:
        url: of the endpoint, e.g. http://127.0.0.1:8080/mcp.
        timeout_s: for each step of a request.
    """

    def __init__(self, url: str, *, timeout_s: float = 120.0) -> None:
        self.url = url
        self.trace_id = secrets.token_hex(16)
        self._timeout_s = timeout_s

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request and return its result; raises McpError with the server's message."""
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": {**(params or {}), "_meta": self._meta()},
        }
        headers = _headers(method, params or {})
        try:
            response = post(self.url, body, headers, self._timeout_s)
        except (OSError, HTTPException) as error:
            raise McpError(
                f"{self.url} does not answer ({type(error).__name__}). Is the stack running? "
                "Start it: searchbus up"
            ) from None
        reply = reply_of(self.url, response)
        if "error" in reply:
            error_ = reply["error"]
            text = f"{error_.get('message', 'unknown error')} ({error_.get('code')})"
            if response.status == HTTPStatus.UNAUTHORIZED:
                text += " This command sends the key or token in SEARCHBUS_TOKEN."
            raise McpError(text)
        result: dict[str, Any] = reply["result"]
        return result

    def pages(self, method: str, key: str) -> list[dict[str, Any]]:
        """All items of a list method (`key` in its results, e.g. "tools"), from all its pages."""
        items: list[dict[str, Any]] = []
        cursor = None
        for _ in range(_MOST_PAGES):
            result = self.request(method, {"cursor": cursor} if cursor else None)
            items += result[key]
            cursor = result.get("nextCursor")
            if not cursor:
                return items
        raise McpError(f"{self.url} has more than {_MOST_PAGES} pages of {key}. Use a toolset.")

    def _meta(self) -> dict[str, Any]:
        return {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": {"name": "searchbus-cli", "version": VERSION},
            "io.modelcontextprotocol/clientCapabilities": {},
            "traceparent": f"00-{self.trace_id}-{secrets.token_hex(8)}-01",
        }


def endpoint(url: str | None, data: Path | None, toolset: str | None = None) -> McpHttp:
    """An endpoint of an edge, or of the running stack where no address is given.

    Raises:
        CommandError: no stack runs on the data folder.
    """
    if url is None:
        folder = data_folder(data)
        state = read_state(folder)
        if state is None:
            raise CommandError(no_stack(folder))
        url = state.url
    base = url.rstrip("/").removesuffix("/mcp")
    return McpHttp(f"{base}/mcp/{quote(toolset, safe='')}" if toolset else f"{base}/mcp")


def _headers(method: str, params: dict[str, Any]) -> dict[str, str]:
    headers = {
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": method,
    }
    if token := os.environ.get("SEARCHBUS_TOKEN", "").strip():
        if not (token.isascii() and token.isprintable()):
            raise McpError(
                "SEARCHBUS_TOKEN has characters that a token cannot have. Copy it again."
            )
        headers["Authorization"] = f"Bearer {token}"
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return headers


def reply_of(url: str, answer: Answer) -> dict[str, Any]:
    """The JSON-RPC reply: the body, or the event of a stream that has an id; raises McpError."""
    try:
        if EVENT_STREAM in answer.headers.get("content-type", ""):
            data = (line[5:] for line in answer.body.splitlines() if line.startswith(b"data:"))
            messages = (json.loads(text) for text in data if text.strip())
            reply = next((message for message in messages if "id" in message), None)
        else:
            reply = json.loads(answer.body)
    except (ValueError, TypeError):
        reply = None
    if not isinstance(reply, dict) or not ("result" in reply or "error" in reply):
        raise McpError(f"{url} sent no MCP reply (HTTP {answer.status}).")
    return reply
