"""The reason why a URL cannot be reached is named with its place, and with nothing else of it."""

from __future__ import annotations

import socket
import ssl

import httpx2
import pytest

from searchbus_attach.upstream.unreached import status_problem, unreached

URL = "https://user:word@far.example/secret?key=secret"
PLACE = "far.example:443"


def failed(cause: BaseException | None, url: str = URL) -> str:
    error = httpx2.ConnectError("https://user:word@far.example", request=httpx2.Request("GET", url))
    error.__cause__ = cause
    return unreached(error)


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
    assert unreached(httpx2.ConnectError("x")) == "it cannot be reached"


def test_the_place_is_that_of_the_request():
    """An address of IPv6 has brackets; another port than the usual one is shown."""
    refused = ConnectionRefusedError(111, "refused")
    assert "reached: [::1]:8080 refuses" in failed(refused, "http://[::1]:8080/mcp")
    assert "reached: far.example:80 refuses" in failed(refused, "http://far.example/")
    request = httpx2.Request("GET", URL)
    late = unreached(httpx2.ConnectTimeout("x", request=request))
    assert late == f"it cannot be reached: {PLACE} does not accept the connection in time"


def test_a_status_is_named_in_words():
    """One of a wrong address says what to look at."""
    assert status_problem(404) == "it answers HTTP 404 (Not Found); check its 'url'"
    assert status_problem(503) == "it answers HTTP 503 (Service Unavailable)"
    assert status_problem(599) == "it answers HTTP 599"
