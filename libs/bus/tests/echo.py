"""A small service and its caller, for the tests of what both transports have in common."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from searchbus_bus import Bus, Call, Serving, Toolset, Worker, endpoint, tool
from searchbus_contracts import ErrorCode, Fault


class EchoRequest(Struct, frozen=True):
    text: str = ""
    wait_s: Annotated[float, Meta(ge=0, le=10)] = 0.0


class EchoReply(Struct, frozen=True):
    text: str
    by: str = ""


class Arguments(Struct, forbid_unknown_fields=True):
    word: Annotated[str, Meta(min_length=1, max_length=10)]


class Voice(Toolset, name="voice"):
    @tool(title="Shout")
    async def shout(self, call: Call, arguments: Arguments) -> EchoReply:
        """Shouts."""
        return EchoReply(text=arguments.word.upper())


class Echo:
    """A service whose endpoints show what the suite checks."""

    def __init__(self, name: str = "echo", **options: Any) -> None:
        self.name = name
        self.started = 0
        self.released = asyncio.Event()
        self.cancelled = 0
        self.worker = Worker("echo", **options)
        self.worker.add(self, Voice())

    @endpoint
    async def say(self, call: Call, request: EchoRequest) -> EchoReply:
        self.started += 1
        try:
            await asyncio.sleep(request.wait_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return EchoReply(text=request.text, by=self.name)

    @endpoint
    async def hold(self, call: Call, request: EchoRequest) -> EchoReply:
        await self.released.wait()
        return EchoReply(text=request.text, by=self.name)

    @endpoint
    async def fail(self, call: Call, request: EchoRequest) -> EchoReply:
        raise Fault(ErrorCode.NOT_FOUND, "No such thing: take another.")

    @endpoint
    async def break_(self, call: Call, request: EchoRequest) -> EchoReply:
        raise RuntimeError("secret-canary")

    @endpoint
    async def steps(self, call: Call, request: EchoRequest) -> EchoReply:
        for step in range(3):
            await call.progress(step + 1, 3, f"step {step + 1}")
        await call.log("info", {"at": "end"})
        return EchoReply(text="done")

    @endpoint
    async def who(self, call: Call, request: EchoRequest) -> EchoReply:
        return EchoReply(text=call.actor.subject, by=",".join(call.actor.roles))


async def call_echo(
    bus: Bus, verb: str = "say", *, timeout_s: float = 60.0, **options: Any
) -> EchoReply:
    message = options.pop("message", None) or EchoRequest(**options.pop("fields", {}))
    return await bus.request(
        bus.subjects.endpoint("echo", verb),
        message,
        EchoReply,
        service="echo",
        timeout_s=timeout_s,
        **options,
    )


async def fault_of(awaitable: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        await awaitable
    return caught.value


async def start(bus: Bus, echo: Echo) -> Serving:
    return await bus.serve(echo.worker)
