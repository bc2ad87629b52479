"""A client that counts what becomes of its calls. Every answer is compared with what was asked.

async with Client([port]) as client:
    outcomes = await client.load(rate_per_s=300, seconds=3)
    counts(outcomes)["failed"]
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socket
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

REVISION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "chaos", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_BUFFER_BYTES = 32 * 2**20
"""With less, reading a large answer would take longer than serving it."""
SPARE_S = 0.25
"""An answer may come this long after the deadline."""
GIVE_UP_S = 60.0
"""After the deadline; in the short form, which also runs on busy machines, an answer may come so late."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one call.

    Attributes:
        kind: answer; error (a typed one); refused (HTTP); lost (no connection); late (after the
            deadline and a little); silent (the client gave up); wrong (another answer than was
            asked for).
        code: of an error.
        started_s, took_s: on the monotonic clock, with all attempts.
    """

    kind: str
    code: str
    started_s: float
    took_s: float
    text: str = ""


def counts(outcomes: Sequence[Outcome]) -> Counter[str]:
    """By kind; and `failed`: everything but answers; `broken`: what has neither its own answer nor a
    typed error by its deadline.
    """
    found = Counter(outcome.kind for outcome in outcomes)
    found["broken"] = sum(found[kind] for kind in ("late", "silent", "lost", "wrong"))
    found["failed"] = len(outcomes) - found["answer"]
    return found


class Client:
    """Calls tools at one of several edges, over connections that are kept.

    Args:
        ports: of the edges on loopback; a call goes to the next one where it finds no connection.
        path: of the endpoint.
        token: of the caller.
        short: the form of the row; in the short one a call may end late.
        revision: of MCP; servers of an older one may need a session.
        give_up_s: how long after its deadline the client waits for a call.

    Attributes:
        ports: of the edges.
        session: the Mcp-Session-Id of its requests; empty without one.
    """

    def __init__(
        self, ports: Sequence[int], *, path: str = "/mcp", token: str = "",
        short: bool = False, revision: str = REVISION, give_up_s: float = GIVE_UP_S,
    ) -> None:  # fmt: skip
        self.session = ""
        self.ports = list(ports)
        self._path = path
        self._token = token
        self._revision = revision
        self._meta = {"_meta": _META} if revision == REVISION else {}
        self._spare_s = GIVE_UP_S if short else SPARE_S
        self._give_up_s = give_up_s
        self._turn = itertools.count()
        self._numbers = itertools.count()
        self._idle: dict[int, list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = {
            port: [] for port in ports
        }

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        for connections in self._idle.values():
            while connections:
                connections.pop()[1].close()

    async def load(
        self, *, rate_per_s: float, seconds: float, tool: str = "echo", attempts: int = 1,
        deadline_s: float = 5.0, **arguments: Any,
    ) -> list[Outcome]:  # fmt: skip
        """Call echo at an even rate, each with a text of its own."""
        tasks = []
        started_s = time.monotonic()
        for number in range(round(rate_per_s * seconds)):
            await asyncio.sleep(max(0.0, started_s + number / rate_per_s - time.monotonic()))
            tasks.append(
                asyncio.create_task(
                    self.echo(tool, attempts=attempts, deadline_s=deadline_s, **arguments)
                )
            )
        return list(await asyncio.gather(*tasks))

    async def echo(self, tool: str = "echo", **options: Any) -> Outcome:
        """One call whose answer must be its own text."""
        text = f"text {next(self._numbers)} of {id(self)}"
        call = {"attempts": 1, "deadline_s": 5.0}
        call |= {key: options.pop(key) for key in tuple(options) if key in call}
        return await self.call(tool, {"text": text, **options}, expected=text, **call)

    async def call(
        self, tool: str, arguments: dict[str, Any], *, expected: str | None = None,
        attempts: int = 1, deadline_s: float = 30.0,
    ) -> Outcome:  # fmt: skip
        """Call a tool; a retryable failure is tried again, `attempts` times in all."""
        started_s = time.monotonic()
        outcome = Outcome("lost", "", started_s, 0.0)
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(0.1)
            kind, code, text = await self._attempt(tool, arguments, expected, deadline_s)
            outcome = Outcome(kind, code, started_s, time.monotonic() - started_s, text)
            if kind in ("answer", "wrong", "late", "silent") or code in (
                "invalid_argument",
                "not_found",
            ):
                break
        return outcome

    async def _attempt(
        self, tool: str, arguments: dict[str, Any], expected: str | None, deadline_s: float
    ) -> tuple[str, str, str]:
        params = {"name": tool, "arguments": arguments}
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(deadline_s + self._give_up_s):
                status, body = await self.post("tools/call", params, name=tool)
        except TimeoutError:
            return "silent", "", ""
        except (OSError, asyncio.IncompleteReadError, ValueError):
            return "lost", "", ""
        if time.monotonic() - started_s > deadline_s + self._spare_s:
            return "late", "", ""
        if "error" in body:
            error = body["error"]
            kind = "error" if status == 200 else "refused"
            return kind, str(error.get("code")), str(error.get("message", ""))
        result = body["result"]
        if result.get("isError"):
            error = (result.get("structuredContent") or {}).get("error", {})
            return "error", str(error.get("code")), str(error.get("message", ""))
        text = result["content"][0]["text"]
        if expected is not None and text != expected:
            return "wrong", "", text
        return "answer", "", text

    async def post(
        self, method: str, params: dict[str, Any], *, name: str = ""
    ) -> tuple[int, dict[str, Any]]:
        """One JSON-RPC request, with what the revision wants in `_meta`; returns the HTTP status and
        the message.

        Raises:
            OSError, IncompleteReadError: no edge answered.
        """
        body = self._body(method, params)
        first = next(self._turn)
        error: Exception = ConnectionError("no edge")
        for offset in range(len(self.ports)):
            port = self.ports[(first + offset) % len(self.ports)]
            try:
                return await self._send(port, method, name, body)
            except (OSError, asyncio.IncompleteReadError) as failed:
                error = failed
        raise error

    def time_to_last_byte(self, tool: str, arguments: dict[str, Any]) -> tuple[float, str]:
        """Call a tool at the first edge; the seconds until its response is there, and its text.

        It blocks, on a connection of its own, and decodes nothing in this time: a client that
        shares the machine with what it measures should take little of it.
        """
        port = self.ports[0]
        body = self._body("tools/call", {"name": tool, "arguments": arguments})
        request = self._head(port, "tools/call", tool, len(body)) + body
        received = bytearray(_BUFFER_BYTES)
        started_s = time.monotonic()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(request)
            count, end = 0, _BUFFER_BYTES
            while count < end:
                size = connection.recv_into(memoryview(received)[count:])
                if not size:
                    raise ConnectionError("the response ended early")
                count += size
                if end == _BUFFER_BYTES and (head := received.find(b"\r\n\r\n", 0, count)) > 0:
                    length = re.search(rb"(?i)content-length: (\d+)", received[:head])
                    assert length is not None, received[:head]
                    end = head + 4 + int(length[1])
        took_s = time.monotonic() - started_s
        answer = msgspec.json.decode(memoryview(received)[head + 4 : end])
        return took_s, str(answer["result"]["content"][0]["text"])

    def _body(self, method: str, params: dict[str, Any]) -> bytes:
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method}
        return json.dumps({**message, "params": {**params, **self._meta}}).encode()

    async def _send(
        self, port: int, method: str, name: str, body: bytes
    ) -> tuple[int, dict[str, Any]]:
        kept = bool(self._idle[port])
        reader, writer = (
            self._idle[port].pop()
            if kept
            else await asyncio.open_connection("127.0.0.1", port, limit=_BUFFER_BYTES)
        )
        done = False
        try:
            writer.write(self._head(port, method, name, len(body)) + body)
            status, answer = await _read(reader)
            done = True
            return status, answer
        except (OSError, asyncio.IncompleteReadError):
            if not kept:
                raise
        finally:
            if done:
                self._idle[port].append((reader, writer))
            else:
                writer.close()
        # The edge closed the connection while it was idle: a new one decides.
        return await self._send(port, method, name, body)

    def _head(self, port: int, method: str, name: str, size_bytes: int) -> bytes:
        lines = [
            f"POST {self._path} HTTP/1.1", f"Host: 127.0.0.1:{port}",
            "Content-Type: application/json", "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {self._revision}", f"Mcp-Method: {method}",
            f"Content-Length: {size_bytes}",
        ]  # fmt: skip
        if name:
            lines.append(f"Mcp-Name: {name}")
        if self.session:
            lines.append(f"Mcp-Session-Id: {self.session}")
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split(" ", 2)[1])
    if "content-length: " in head:
        size_bytes = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(size_bytes)
    else:
        parts = []
        while True:
            size_bytes = int((await reader.readuntil(b"\r\n")).strip(), 16)
            parts.append((await reader.readexactly(size_bytes + 2))[:-2])
            if not size_bytes:
                break
        body = b"".join(parts)
    if "text/event-stream" in head:
        events = [line[5:] for line in body.decode().splitlines() if line.startswith("data:")]
        messages = [msgspec.json.decode(event) for event in events if event.strip()]
        return status, next(m for m in messages if "id" in m)
    with suppress(ValueError):
        found = msgspec.json.decode(body)
        if isinstance(found, dict):
            return status, found if "result" in found or "error" in found else {"error": found}
    return status, {"error": {"code": f"HTTP {status}"}}
