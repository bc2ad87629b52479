"""Connections: the transport of a server, the session on it, and what they report.

async with open_connection(server, environment) as connection: ...
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2
from mcp import MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp_types import (
    LoggingMessageNotificationParams,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ToolListChangedNotification,
)

from ..auth.credentials import Credentials
from ..declare.auth_methods import OURSELVES
from ..declare.servers import Server, own_folders, variable
from ..definitions.text import clean_line
from ..errors import ServerDeclarationError, ServerError, ServerProblem
from ..transports.budget import Budget
from ..transports.child import ChildLog
from ..transports.direct import DirectRequests
from ..transports.http.client import BearerAuth
from ..transports.messages import says_closed
from ..transports.notes import HttpNotes
from ..transports.posting import REFUSED_SESSION
from ..transports.reaping import Reaper
from ..transports.remote import remote_transport
from ..transports.stdio import stdio_transport
from .session import CLIENT, TASKS, ServerSession

_CHANGES = (
    ToolListChangedNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
)
SILENT_S, _LOOKS = 5.0, 8
"""Without a sign of life of the server during a call; then it gets a ping. Looks are counted, not
the clock: while the machine stood still, no server could say anything."""
_STATUS_ONLY = re.compile("Not Found|Server returned an error response.*", re.S)
"""What the SDK says for an HTTP status of 400 and more without an answer of MCP."""


@dataclass(slots=True)
class ConnectionContext:
    """What connections share.

    Args:
        logs: the folder for what commands print; None: our own log, at debug.
        credentials: what signs in to remote servers.
        worker: the instance on the bus that the connections are for; empty outside of the service.
        own: files and folders of ours that no command may reach, where the kernel sees to it.
        budgets: what each server may send, by its name.
    """

    reaper: Reaper = field(default_factory=Reaper)
    logs: Path | None = None
    credentials: Credentials = field(default_factory=Credentials)
    worker: str = ""
    own: tuple[Path, ...] = field(default_factory=own_folders)
    budgets: dict[str, Budget] = field(default_factory=dict)

    async def aclose(self) -> None:
        """End what connections shared."""
        self.reaper.close()
        await self.credentials.aclose()


class ServerConnection:
    """An open connection.

    Attributes:
        on_log: receives the lines that the server logs for its client.
        attention: set when one of the next two is.
        list_changed: whether the server said that one of its lists changed.
        over: whether it is known to be of no more use; `problem` says why.
        active_s: when the running calls began, or the server last spoke; of the monotonic clock.
        doubtful: set when a call has no answer, so that the server may hang.
        hung: whether it is over because the server answered neither a call nor a ping.
        given_up: set when it is over.
        ended: set when it is closed, after `unreached`.
        unreached: whether it ended because no connection could be made.
        notes: what its transport noted.
        shared: whether calls of more than one caller were sent.
    """

    def __init__(self) -> None:
        self.session: ServerSession
        self.on_log: Callable[[LoggingMessageNotificationParams], Awaitable[None]] | None = None
        self.attention = asyncio.Event()
        self.list_changed = False
        self.doubtful = asyncio.Event()
        self.over = False
        self.problem = ""
        self.active_s = 0.0
        self.hung = False
        self.given_up = asyncio.Event()
        self.ended = asyncio.Event()
        self.unreached = False
        self.notes = HttpNotes()
        self.shared = False
        self._caller: str | None = None
        self._asked = 0
        self._silence: asyncio.TimerHandle | None = None

    def used_by(self, caller: str) -> None:
        """Note whose call is sent next."""
        self.shared = self.shared or self._caller not in (None, caller)
        self._caller = caller

    def speaks_to(self, caller: str) -> bool:
        """Whether what the server logs now can be of a call of this caller only."""
        return not self.shared and self._caller == caller

    def note_change(self) -> None:
        """The lists are to be read again."""
        if not self.list_changed:
            self.list_changed = True
            self.attention.set()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around one request: whether it was answered says whether the server lives."""
        if not self._asked:
            self.note_activity()
            self._look_for_silence()
        self._asked += 1
        try:
            yield
        except (asyncio.CancelledError, TimeoutError):
            self.doubtful.set()
            raise
        except MCPError as error:
            if not is_closed(error):
                self.note_activity()
            raise
        else:
            self.note_activity()
        finally:
            self._asked -= 1
            if not self._asked and self._silence is not None:
                self._silence.cancel()

    def note_activity(self) -> None:
        """Note that the server sent something, which shows that it does not hang."""
        self.active_s = time.monotonic()

    def _look_for_silence(self, looks: int = 0, active_s: float = 0.0) -> None:
        """Doubt the server where it is silent during a call; look again later."""
        looks = looks + 1 if active_s == self.active_s else 0
        if looks == _LOOKS:
            self.doubtful.set()
        self._silence = asyncio.get_running_loop().call_later(
            SILENT_S / _LOOKS, self._look_for_silence, looks % _LOOKS, self.active_s
        )

    def give_up(self, problem: str = "the session ended") -> None:
        """The connection is of no more use; the first reason counts."""
        if not self.over:
            self.over, self.problem = True, problem
        self.given_up.set()
        self.attention.set()

    @property
    def never_reached(self) -> bool:
        """Whether it ended because the server could not be reached, and no other request that it
        had sent was without an answer then: none of the calls that ended with it were done."""
        return self.unreached and not self.notes.unanswered

    def note_end(self, error: BaseException) -> None:
        """Note what ended it; the exception itself would keep all that its frames hold."""
        self.unreached = isinstance(first_of(error), httpx2.ConnectError | httpx2.ConnectTimeout)

    async def follow_changes(self) -> None:
        """Follow the lists of a server that reports changes on request (2026-07-28)."""
        try:
            async with listen(
                self.session,
                tools_list_changed=True,
                prompts_list_changed=True,
                resources_list_changed=True,
            ) as events:
                async for _ in events:
                    self.note_change()
        except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            return  # the list is read again from time to time


@asynccontextmanager
async def open_connection(
    server: Server, context: ConnectionContext, notes: HttpNotes, caller: str = OURSELVES
) -> AsyncGenerator[ServerConnection]:
    """Start a command or reach a URL; the session is not negotiated yet.

    Args:
        caller: whose credentials are sent to a URL.

    Raises:
        DeclarationError: a variable has no value.
        OSError, httpx2.HTTPError: it cannot be started or reached, or the connection ended.
    """
    connection = ServerConnection()

    async def on_message(message: object) -> None:
        if isinstance(message, _CHANGES):
            connection.note_change()

    async def on_log(params: LoggingMessageNotificationParams) -> None:
        connection.note_activity()
        if connection.on_log is not None:
            await connection.on_log(params)

    secrets: list[str] = []

    def value(name: str) -> str | None:
        found = variable(name)
        secrets.append(found or "")
        return found

    expanded = server.expanded(value)
    secrets += [*expanded.env.values(), *(os.environ.get(name, "") for name in server.pass_env)]
    connection.notes = notes
    token = context.credentials.token_for(server, caller)
    notes.auth = None
    if token is not None and expanded.auth is not None:
        notes.auth = BearerAuth(expanded.url, token, expanded.auth.header)
    log = ChildLog(server.name, context.logs, secrets)
    direct = DirectRequests()
    transport = (
        remote_transport(expanded, notes, direct)
        if server.url
        else stdio_transport(expanded, context.reaper, log, notes.budget, direct, context.own)
    )
    try:
        async with (
            transport as (read, write),
            ServerSession(
                read,
                write,
                client_info=CLIENT,
                extensions={TASKS: {}},
                message_handler=on_message,
                logging_callback=on_log,
                direct=direct,
            ) as session,
        ):
            connection.session = session
            yield connection
    finally:
        log.close()


def is_closed(error: MCPError) -> bool:
    """Whether the connection ended before the answer: the server may have done the work."""
    return says_closed(error.code, error.message)


def is_refused(error: MCPError) -> bool:
    """Whether the server does not know the session (any more): it did not do the work."""
    return error.data is REFUSED_SESSION


def is_over(error: BaseException) -> bool:
    """Whether the session can be of no more use: it ended, or the server does not know it."""
    return isinstance(error, MCPError) and (is_closed(error) or is_refused(error))


def is_away(error: BaseException, notes: HttpNotes) -> bool:
    """Whether nobody answers at a server's address, so that it may be back at any moment.

    One that answers, if only with a refusal, is not asked again sooner: it may want fewer requests.
    """
    ended = httpx2.NetworkError | httpx2.RemoteProtocolError
    return notes.status in _AWAY or isinstance(first_of(error), ended)


def first_of(error: BaseException) -> BaseException:
    """The first exception of groups in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def why(error: BaseException, notes: HttpNotes) -> str:
    """Why a connection failed, in one line without secrets; a Problem where callers are told less.

    The texts of exceptions that we did not write are not shown: they can hold URLs and headers.
    """
    if notes.advice:
        return notes.advice
    error = first_of(error)
    if isinstance(error, ServerError):
        return ServerProblem(f"{error}{error.detail}", told=str(error))
    if isinstance(error, ServerDeclarationError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"there is no program {clean_line(str(error.filename), 80)}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, MCPError):
        if notes.status >= httpx2.codes.BAD_REQUEST and _STATUS_ONLY.fullmatch(error.message):
            return status_problem(notes.status)
        return f"it refuses: {clean_line(error.message, 200)}"
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return connect_problem(error)
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return "it does not answer in time"
    if isinstance(error, httpx2.HTTPStatusError):
        return status_problem(error.response.status_code)
    if isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
        return "the connection ended"
    return type(error).__name__


_NOT_REACHED = "it cannot be reached"
_PORTS = {"http": 80, "https": 443}
_NO_ADDRESS = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_WRONG_PLACE = {404, 405, 410}
_AWAY = {502, 503, 504}
"""What a proxy answers for a server that is away."""


def connect_problem(error: httpx2.ConnectError | httpx2.ConnectTimeout) -> ServerProblem:
    """Why no connection could be made, in one line."""
    reason = _reason(error, *_place(error))
    return ServerProblem(f"{_NOT_REACHED}: {reason}" if reason else _NOT_REACHED, told=_NOT_REACHED)


def status_problem(status: int) -> str:
    """What an HTTP status without an answer of MCP says, in one line."""
    words = httpx2.codes.get_reason_phrase(status)
    answer = f"it answers HTTP {status}{f' ({words})' if words else ''}"
    return f"{answer}; check its 'url'" if status in _WRONG_PLACE else answer


def _place(error: httpx2.RequestError) -> tuple[str, str]:
    """The host, and the host with the port; of an error without a request, words for them."""
    try:
        url = error.request.url
    except RuntimeError:
        return "its host", "its address"
    host = f"[{url.host}]" if ":" in url.host else url.host
    return host, f"{host}:{url.port or _PORTS.get(url.scheme, 0)}"


def _reason(error: BaseException, host: str, place: str) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return f"{place} does not accept the connection in time"
    found = _of_system(error)
    if isinstance(found, socket.gaierror):
        if found.errno in _NO_ADDRESS:
            return f"the name {host} has no address; check its 'url'"
        return f"the address of the name {host} cannot be found now; check the name server"
    if isinstance(found, ssl.SSLCertVerificationError):
        why = clean_line(getattr(found, "verify_message", "") or "it cannot be verified", 120)
        return (
            f"the TLS certificate of {place} is not accepted ({why}); for an authority of your own "
            "set SSL_CERT_FILE"
        )
    if isinstance(found, ssl.SSLError):
        return f"{place} does not speak TLS as we do; check whether its 'url' is http or https"
    if isinstance(found, ConnectionRefusedError):
        return f"{place} refuses the connection; start the server, or correct its 'url'"
    if found is not None and found.strerror:
        return f"{place}: {found.strerror}"
    return ""


def _of_system(error: BaseException | None) -> OSError | None:
    """The error of the system that led to this one; httpx2's own transport has others between."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error
