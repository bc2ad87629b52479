"""The files of the page: HTML, CSS and modules, as they are in the package.

They hold no data, so that a browser gets them before it can send a credential.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from ...http.answer import PlainAnswer
from ...http.faults import HttpError
from ...http.head import Headers, HttpRefusal

POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_HEADERS: Headers = (
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)
_TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}


def asset(name: str) -> PlainAnswer:
    """One file; raises HttpError where there is none of that name."""
    found = _files().get(name)
    if found is None:
        raise HttpError.of(HttpRefusal(404, "The console has no such file."))
    return PlainAnswer(found, content_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)


@cache
def _files() -> dict[str, bytes]:
    folder = resources.files(__package__) / "static"
    found = [file for file in folder.iterdir() if file.name.rpartition(".")[2] in _TYPES]
    return {file.name: file.read_bytes() for file in found}
