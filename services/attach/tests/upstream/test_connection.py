"""What ended a connection, and what that says about the call."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time

import httpx2
import pytest
from mcp import MCPError

from searchbus_attach.errors import ServerDeclarationError, ServerError
from searchbus_attach.transports.notes import HttpNotes
from searchbus_attach.transports.posting import REFUSED_SESSION
from searchbus_attach.upstream.connection import (
    ServerConnection,
    connect_problem,
    is_closed,
    is_refused,
    status_problem,
    why,
)


@pytest.mark.parametrize(
    ("error", "closed", "refused"),
    [
        (MCPError(-32000, "Connection closed"), True, False),
        (MCPError(-32000, "SSE stream ended without a response"), True, False),
        (MCPError(-32000, "the disk is full"), False, False),
        (MCPError(-32600, "Session terminated"), False, False),
        (MCPError(-32600, "Session terminated", REFUSED_SESSION), False, True),
    ],
)
def test_lost_and_refused_sessions_are_told_apart(error, closed, refused):
    """Only a refused session surely did no work."""
    assert (is_closed(error), is_refused(error)) == (closed, refused)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ServerError("it prints nonsense"), "it prints nonsense"),
        (ServerDeclarationError("${KEY} has no value"), "${KEY} has no value"),
        (FileNotFoundError(2, "No such file", "/x/prog"), "there is no program /x/prog"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (MCPError(-1, "no\x1b key"), "it refuses: no key"),
        (httpx2.ConnectError("http://user:word@x.example"), "it cannot be reached"),
        (httpx2.ReadTimeout("x"), "it does not answer in time"),
        (ExceptionGroup("", [ExceptionGroup("", [TimeoutError()])]), "it does not answer in time"),
        (RuntimeError("token=secret"), "RuntimeError"),
    ],
)
def test_the_reason_is_one_line_without_secrets(error, words):
    """Texts of exceptions that are not ours may hold anything."""
    assert why(error, HttpNotes()) == words


def test_refused_credentials_are_named_first():
    """Whatever exception followed."""
    notes = HttpNotes()
    notes.status = 401
    assert "credentials" in why(RuntimeError(), notes)


def test_only_an_address_that_was_never_reached_is_safe_to_ask_again():
    """A group of exceptions is looked into."""
    connection = ServerConnection()
    connection.note_end(ExceptionGroup("", [httpx2.ConnectError("x")]))
    assert connection.never_reached
    url = "http://x.example/mcp"
    subscribed = httpx2.Request("POST", url, headers={"Mcp-Method": "subscriptions/listen"})
    connection.notes.note_unreached([httpx2.Request("GET", url), subscribed])
    assert connection.never_reached
    connection.notes.note_unreached([httpx2.Request("POST", url)])
    connection.notes.note_unreached([])
    assert not connection.never_reached  # that call may have been received
    connection.notes = HttpNotes()
    connection.note_end(httpx2.ReadError("x"))
    assert not connection.never_reached


def test_a_connection_says_what_needs_attention():
    """A doubt is not the end yet."""
    connection = ServerConnection()
    connection.doubtful.set()
    assert (connection.doubtful.is_set(), connection.over) == (True, False)
    connection.give_up("it does not answer")
    assert (connection.over, connection.problem) == (True, "it does not answer")
    assert connection.attention.is_set()


async def test_time_in_which_this_process_stood_still_is_no_silence_of_the_server(monkeypatch):
    """It was not asked for a sign of life then; it is doubted after real silence."""
    loop, now_s, stood_s = asyncio.get_running_loop(), time.monotonic, 0.0
    for clock, name in ((loop, "time"), (time, "monotonic")):
        monkeypatch.setattr(clock, name, lambda: now_s() + stood_s)
    connection = ServerConnection()
    with connection.asking():
        stood_s = 60.0
        for _ in range(5):
            await asyncio.sleep(0)
        assert not connection.doubtful.is_set()
        for _ in range(8):
            stood_s += 5.0
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert connection.doubtful.is_set()


def test_a_connection_is_shared_by_the_second_caller():
    """For good: what it says later may be of the first one."""
    connection = ServerConnection()
    for caller, shared in [("ann", False), ("ann", False), ("bob", True), ("bob", True)]:
        connection.used_by(caller)
        assert connection.shared is shared


def test_many_notices_of_a_change_are_one():
    """Until the lists are read."""
    connection = ServerConnection()
    connection.note_change()
    connection.attention.clear()
    connection.note_change()
    assert not connection.attention.is_set()
    connection.list_changed = False
    connection.note_change()
    assert connection.attention.is_set()


URL = "https://user:word@far.example/secret?key=secret"
PLACE = "far.example:443"


def failed(cause: BaseException | None, url: str = URL) -> str:
    error = httpx2.ConnectError("https://user:word@far.example", request=httpx2.Request("GET", url))
    error.__cause__ = cause
    return connect_problem(error)


def not_verified(words: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "verify failed")
    error.verify_message = words
    return error


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (ConnectionRefusedError(111, "refused"), f"{PLACE} refuses the connection; start"),
        (socket.gaierror(socket.EAI_NONAME, "x"), "the name far.example has no address; check"),
        (socket.gaierror(socket.EAI_AGAIN, "x"), "far.example cannot be found now"),
        (not_verified("certificate has expired"), f"{PLACE} is not accepted (certificate has ex"),
        (ssl.SSLError(1, "WRONG_VERSION_NUMBER"), f"{PLACE} does not speak TLS as we do; check"),
        (OSError(113, "No route to host"), f"{PLACE}: No route to host"),
    ],
)
def test_the_reason_is_that_of_the_system(cause, words):
    """Also where an exception of a library is between."""
    between = RuntimeError("between")
    between.__context__ = cause
    for found in (failed(cause), failed(between)):
        assert found.startswith("it cannot be reached: ")
        assert words in found
        assert not any(part in found for part in ("user", "word", "secret", "key"))
        assert found.told == "it cannot be reached"


def test_without_a_reason_nothing_is_added():
    """The text of the exception may hold anything."""
    assert failed(None) == failed(RuntimeError("token")) == "it cannot be reached"
    assert connect_problem(httpx2.ConnectError("x")) == "it cannot be reached"


def test_the_place_is_that_of_the_request():
    """An address of IPv6 has brackets; another port than the usual one is shown."""
    refused = ConnectionRefusedError(111, "refused")
    assert "reached: [::1]:8080 refuses" in failed(refused, "http://[::1]:8080/mcp")
    assert "reached: far.example:80 refuses" in failed(refused, "http://far.example/")
    request = httpx2.Request("GET", URL)
    late = connect_problem(httpx2.ConnectTimeout("x", request=request))
    assert late == f"it cannot be reached: {PLACE} does not accept the connection in time"


def test_a_status_is_named_in_words():
    """One of a wrong address says what to look at."""
    assert status_problem(404) == "it answers HTTP 404 (Not Found); check its 'url'"
    assert status_problem(503) == "it answers HTTP 503 (Service Unavailable)"
    assert status_problem(599) == "it answers HTTP 599"
