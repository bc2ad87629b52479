"""The console as an application: the page, who calls, the live overview, held definitions.

The page's HTML, CSS and modules hold no data, so that a browser gets them before it can send a
credential.
"""

from __future__ import annotations

from functools import cache, cached_property, partial
from importlib import resources
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from msgspec import Struct

from searchbus_bus import Bus, Directory
from searchbus_contracts import VERSION, encode
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_runtime.pins import PinFile

from ...auth.signing import StateKey
from ...catalog.pinning import HeldChanges
from ...catalog.prompts import Prompts, Read
from ...catalog.resources import Resources
from ...http.answer import PlainAnswer
from ...http.faults import PROBLEM, HttpRefusedError, failed
from ...http.head import Headers
from ...search.finder import Finder
from ...settings import EdgeSettings
from ..calls import HttpCalls, plain_app
from .access import API, Access, Streamed, Visitor, audit, send_overview
from .attached import add_attached
from .catalogue import add_catalogue, visible_toolsets
from .connecting import add_connecting
from .documents import add_documents
from .overview import Overview
from .searching import add_searching
from .tracing import add_tracing


class Decision(Struct, frozen=True):
    """Approve or refuse the held definition that `digits` name."""

    digits: str
    approved: bool = True


class Console:
    """The page and its data, as an ASGI application; `key` is the deployment's."""

    def __init__(
        self,
        bus: Bus,
        directory: Directory,
        calls: HttpCalls,
        finder: Finder,
        prompts: Prompts,
        resources: Resources,
        read: Read,
        settings: EdgeSettings,
        key: StateKey,
        *,
        base_url: str,
        signed_in: bool,
    ) -> None:
        self._settings = settings
        self._base_url = base_url
        self._access = Access(calls, key, signed_in=signed_in)
        pins = settings.pin_file if settings.hold_changes else None
        self._held = HeldChanges(directory, None if pins is None else PinFile(pins))
        self._overview = Overview(bus, directory, self._held)

        def build() -> FastAPI:
            app = plain_app(calls, PROBLEM)
            self._add_pages(app)
            add_catalogue(app, self._access, prompts, resources)
            add_searching(app, self._access, finder, bus, read, settings.data_dir)
            add_tracing(app, self._access, settings.trace_file)
            add_attached(app, self._access, bus, directory, settings.data_dir)
            add_documents(app, self._access, bus, read, settings.data_dir)
            add_connecting(app, self._access, settings, base_url)
            return app

        self._build = build

    @cached_property
    def app(self) -> FastAPI:
        """Built for the first request: an edge on standard input and output has none."""
        return self._build()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        await self.app(scope, receive, send)

    def close(self) -> None:
        """End the open event streams."""
        self._overview.close()

    def _add_pages(self, app: FastAPI) -> None:
        access = self._access

        @app.exception_handler(RequestValidationError)
        async def invalid(request: Request, error: RequestValidationError) -> PlainAnswer:
            # Whoever asks was identified before.
            names = ", ".join(str(fault["loc"][-1])[:64] for fault in error.errors())
            message = f"Wrong or missing parameters: {names}. Correct them."
            return failed(HttpRefusedError(400, message), PROBLEM)

        @app.get("/console")
        async def page(request: Request) -> PlainAnswer:
            access.calls.check_address(request.scope)
            return asset("index.html")

        @app.get("/console/{name}")
        async def file(request: Request, name: str) -> PlainAnswer:
            access.calls.check_address(request.scope)
            return asset(name)

        @app.get(f"{API}/me")
        async def me(visitor: Visitor = Depends(access.visitor)) -> PlainAnswer:
            """The caller, and what the page needs to know of this edge."""
            settings, rates = self._settings, self._settings.rates_per_s
            found = {
                "subject": visitor.actor.subject,
                "roles": visitor.actor.roles,
                "sees": visitor.sees,
                "manages": visitor.manages,
                "mode": settings.mode,
                "role": OPERATOR_ROLE,
                "version": VERSION,
                "url": self._base_url,
                "trace_link": settings.console_trace_link,
                "limits": {  # requests a second, and at once; 0: no limit
                    "searches": (rates[0], settings.search_burst),
                    "calls": (rates[1], settings.call_burst),
                    "costly calls": (settings.costly_rate_per_s, settings.costly_burst),
                    "HTTP requests": (rates[2], settings.abuse_burst),
                },
                "toolsets": visible_toolsets(access.calls.everything, visitor.actor),
            }
            return PlainAnswer(encode(found))

        @app.api_route(f"{API}/events", methods=["GET"])  # to HEAD it would have no end
        async def events(request: Request, visitor: Visitor = Depends(access.visitor)) -> Streamed:
            changes = self._overview.watch(everything=visitor.sees)
            admit = partial(access.visitor, request)
            return Streamed(lambda receive, send: send_overview(changes, admit, receive, send))

        @app.get(f"{API}/held", dependencies=[Depends(access.seer)])
        async def held(digits: str) -> PlainAnswer:
            change = self._held.named(digits)
            lines = list(change.held.difference("offered"))
            return PlainAnswer(encode({"name": change.name, "lines": lines}))

        @app.post(f"{API}/held")
        async def decide(
            request: Request, visitor: Visitor = Depends(access.manager)
        ) -> PlainAnswer:
            wanted = await access.body(visitor, request, Decision)
            change = self._held.decide(wanted.digits, approved=wanted.approved)
            done = "approved" if wanted.approved else "refused"
            audit.info("%s %s the definition of %s", visitor.actor.subject, done, change.name)
            return PlainAnswer(encode({"name": change.name, "approved": wanted.approved}))


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
        raise HttpRefusedError(404, "The console has no such file.")
    return PlainAnswer(found, content_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)


@cache
def _files() -> dict[str, bytes]:
    folder = resources.files(__package__) / "static"
    found = [file for file in folder.iterdir() if file.name.rpartition(".")[2] in _TYPES]
    return {file.name: file.read_bytes() for file in found}
