"""What ended a connection, and what that says about the call."""

from __future__ import annotations

import httpx2
import pytest
from mcp import MCPError

from searchbus_attach.declare.servers import DeclarationFault
from searchbus_attach.faults import ServerFault
from searchbus_attach.transports.remote import HttpNotes
from searchbus_attach.upstream.connection import Connection, is_closed, is_refused, why


@pytest.mark.parametrize(
    ("code", "message", "closed", "refused"),
    [
        (-32000, "Connection closed", True, False),
        (-32000, "SSE stream ended without a response", True, False),
        (-32600, "Session terminated", False, True),
        (-32001, "Session not found", False, True),
        (-32001, "Request timed out", False, False),
        (-32000, "Bad Request: No valid session ID provided", False, True),
        (-32000, "the disk is full", False, False),
        (-32603, "Internal error", False, False),
        (-32602, "no session of parliament", False, False),
    ],
)
def test_lost_and_refused_sessions_are_told_apart(code, message, closed, refused):
    """Only a refused session surely did no work."""
    error = MCPError(code, message)
    assert (is_closed(error), is_refused(error)) == (closed, refused)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ServerFault("it prints nonsense"), "it prints nonsense"),
        (DeclarationFault("${KEY} has no value"), "${KEY} has no value"),
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
    connection = Connection()
    connection.cause = ExceptionGroup("", [httpx2.ConnectError("x")])
    assert connection.never_reached
    url = "http://x.example/mcp"
    subscribed = httpx2.Request("POST", url, headers={"Mcp-Method": "subscriptions/listen"})
    connection.notes.note_unreached([httpx2.Request("GET", url), subscribed])
    assert connection.never_reached
    connection.notes.note_unreached([httpx2.Request("POST", url)])
    connection.notes.note_unreached([])
    assert not connection.never_reached  # that call may have been received
    connection.notes = HttpNotes()
    connection.cause = httpx2.ReadError("x")
    assert not connection.never_reached


def test_a_connection_says_what_needs_attention():
    """A doubt is not the end yet."""
    connection = Connection()
    connection.doubt()
    assert (connection.doubtful, connection.over) == (True, False)
    connection.give_up("it does not answer")
    assert (connection.over, connection.problem) == (True, "it does not answer")
    assert connection.attention.is_set()


def test_a_connection_is_shared_by_the_second_caller():
    """For good: what it says later may be of the first one."""
    connection = Connection()
    for caller, shared in [("ann", False), ("ann", False), ("bob", True), ("bob", True)]:
        connection.used_by(caller)
        assert connection.shared is shared


def test_many_notices_of_a_change_are_one():
    """Until the lists are read."""
    connection = Connection()
    connection.note_change()
    connection.attention.clear()
    connection.note_change()
    assert not connection.attention.is_set()
    connection.list_changed = False
    connection.note_change()
    assert connection.attention.is_set()
