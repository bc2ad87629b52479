"""The typed requests of the service: the state of the servers, and what an operator changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from searchbus_bus import Call, endpoint
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.attach import (
    HeldDefinition,
    ManageReply,
    ManageRequest,
    StatusReply,
    StatusRequest,
)
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_runtime.pins import DIGITS

from .consent import Consent
from .declare.attach_file import AttachFile, view_stamp
from .declare.host_files import parse_host_file, starts_searchbus
from .declare.views import parse_view_text
from .errors import ServerDeclarationError
from .gateway import Gateway

_MAX_LOG_BYTES = 32 * 1024
_MAX_HELD = 50
_MAX_LINES = 400
_OF_VIEWS = ("view", "preview", "save_view")
_ITSELF = "it is searchbus itself"


class Managing:
    """Carries out the requests of operators. What commands print is in the folder `logs`, if any;
    `consent` has the calls that wait for a person."""

    def __init__(
        self, gateway: Gateway, file: AttachFile, logs: Path | None, consent: Consent
    ) -> None:
        self._consent = consent
        self._gateway = gateway
        self._file = file
        self._logs = logs

    @endpoint
    async def status(self, call: Call, request: StatusRequest) -> StatusReply:
        """The state of the attached servers."""
        return self._gateway.status(request)

    @endpoint(required_roles=(OPERATOR_ROLE,))
    async def manage(self, call: Call, request: ManageRequest) -> ManageReply:
        """Change what is attached; for operators."""
        try:
            if request.action == "add":
                return await asyncio.to_thread(self._add, request.text)
            if request.action == "remove":
                await asyncio.to_thread(self._remove, request.servers)
                return ManageReply(done=request.servers)
            if request.action in _OF_VIEWS:
                return await asyncio.to_thread(self._view, _one(request), request)
        except ServerDeclarationError as fault:
            raise Fault(ErrorCode.INVALID_ARGUMENT, f"{fault}") from None
        except OSError as error:
            raise _unwritable(error) from None
        if request.action == "waiting":
            return ManageReply(waiting=tuple(await self._consent.waiting()))
        if request.action in ("allow", "deny"):
            allowed = request.action == "allow"
            return ManageReply(
                done=tuple(await self._consent.decide(request.digits, allowed=allowed))
            )
        if request.action == "restart":
            for name in request.servers:
                await self._gateway.restart(name)
            return ManageReply(done=request.servers)
        name = _one(request)
        if request.action == "log":
            self._gateway.held(name)  # it exists
            return ManageReply(log=await asyncio.to_thread(self._log, name))
        if request.action in ("approve", "refuse"):
            approved = request.action == "approve"
            try:
                decided = self._gateway.decide(name, request.digits, approved=approved)
                return ManageReply(done=tuple(decided))
            except (OSError, ValueError) as error:
                raise _unwritable(error) from None
        held = [
            HeldDefinition(
                name=one.tool.name,
                digits=one.sha256[:DIGITS],
                reasons=one.reasons,
                lines=tuple(one.difference("offered"))[:_MAX_LINES],
                refused=one.refused,
            )
            for one in self._gateway.held(name)[:_MAX_HELD]
        ]
        return ManageReply(held=tuple(held))

    def _view(self, name: str, request: ManageRequest) -> ManageReply:
        """Read, try or replace the view of a server; raises DeclarationError, Fault, OSError."""
        text = self._file.view_text(name)
        if request.action == "view":
            return ManageReply(view=self._gateway.preview(name), text=text, stamp=view_stamp(text))
        shown = self._gateway.preview(name, parse_view_text(name, request.text))
        if request.action == "save_view":
            if len(request.digits) != 1:
                raise Fault(ErrorCode.INVALID_ARGUMENT, "digits: Send the stamp of the view.")
            self._file.set_view(name, request.text, request.digits[0])
            text = self._file.view_text(name)
        return ManageReply(view=shown, stamp=view_stamp(text))

    def _add(self, text: str) -> ManageReply:
        servers = parse_host_file(text)
        left_out = {name: _ITSELF for name, one in servers.items() if starts_searchbus(one)}
        added = [one for name, one in servers.items() if name not in left_out]
        unchanged = self._file.add(added)
        left_out |= dict.fromkeys(unchanged, "it is attached already, with the same keys")
        done = tuple(one.name for one in added if one.name not in unchanged)
        return ManageReply(done=done, left_out=left_out)

    def _remove(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._file.remove(name)

    def _log(self, name: str) -> str:
        if self._logs is None:
            return ""
        try:
            with (self._logs / f"attach-{name}.log").open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - _MAX_LOG_BYTES))
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise Fault(
                ErrorCode.UNAVAILABLE, f"The log cannot be read ({error.strerror}). Make it "
                "readable.", retryable=False,
            ) from None  # fmt: skip


def _one(request: ManageRequest) -> str:
    """The server that a request names; raises Fault(invalid_argument)."""
    if len(request.servers) != 1:
        raise Fault(ErrorCode.INVALID_ARGUMENT, "servers: Send the name of one server.")
    return request.servers[0]


def _unwritable(error: Exception) -> Fault:
    return Fault(
        ErrorCode.UNAVAILABLE, f"Nothing is changed: {error} Correct that, and send it again.",
        retryable=False,
    )  # fmt: skip
