"""Why a URL cannot be reached, or answers with an error: the reason, the place, what to do.

Only host and port are named: the rest of a URL, and texts of exceptions, can hold secrets.
"""

from __future__ import annotations

import socket
import ssl

import httpx2

from ..definitions.text import clean_line
from ..faults import Problem

__all__ = ["status_problem", "unreached"]

_UNREACHED = "it cannot be reached"
_PORTS = {"http": 80, "https": 443}
_NO_ADDRESS = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_WRONG_PLACE = {404, 405, 410}


def unreached(error: httpx2.ConnectError | httpx2.ConnectTimeout) -> Problem:
    """Why no connection could be made, in one line."""
    reason = _reason(error, *_place(error))
    return Problem(f"{_UNREACHED}: {reason}" if reason else _UNREACHED, told=_UNREACHED)


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
