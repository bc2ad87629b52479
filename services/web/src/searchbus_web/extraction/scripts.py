"""Pages that need JavaScript: their scripts are run by the service browser, where it is on."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from searchbus_bus import Bus
from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.web import MAX_RENDER_BYTES, RenderReply, RenderRequest

from .fetching import USER_AGENT
from .reading import PageBytes

SERVICE = "browser"
NO_SCRIPTS = (
    "This page may need JavaScript, and no worker here runs scripts. The operator can turn it on: "
    "SEARCHBUS_BROWSER_CHROMIUM."
)
_RAN = "This text is as the scripts of the page left it."
_CUT = "They had not ended at a limit ({cut}): text may be missing."
_FAILED = "The page's scripts could not be run."
_HURRIED = "The time of this call was too short for all scripts of the page: text may be missing."
MAY_CHANGE = (_FAILED, _HURRIED)
"""How a note begins that may be different the next time. Pages without a worker that runs scripts
are kept as all others: their sites would be asked again by every caller, for as long as none is
there."""
_SHARE = 0.8
"""Scripts have this much of the time that is left; the rest is for the page as it was fetched."""


class RanScripts(NamedTuple):
    """What became of a page.

    Args:
        page: as its scripts left it; None where they could not be run, or led elsewhere.
        note: for whoever reads the text.
        moved_to: where they led to.
    """

    page: PageBytes | None
    note: str = ""
    moved_to: str = ""


class BrowserService:
    """The service over the bus; while it is off, every page gets a note."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def run(self, page: PageBytes, left_s: float, actor: Actor) -> RanScripts:
        """Run the scripts of one page for a caller; a failure is its note."""
        if len(page.body) > MAX_RENDER_BYTES:
            return RanScripts(
                None, f"{_FAILED} It is larger than {MAX_RENDER_BYTES / 2**20:.0f} MiB."
            )
        charset = f"; charset={page.charset}" if page.charset else ""
        request = RenderRequest(
            url=page.url,
            body=page.body,
            content_type=f"{page.media_type}{charset}"[:200],
            user_agent=USER_AGENT,
        )
        try:
            reply = await self._bus.request(
                self._bus.subjects.endpoint(SERVICE, "render"), request, RenderReply,
                service=SERVICE, timeout_s=max(0.001, left_s * _SHARE),
                actor=structs.replace(actor, roles=()),  # it needs no role
            )  # fmt: skip
        except Fault as fault:
            if fault.code == ErrorCode.UNAVAILABLE and fault.failure.retryable:
                return RanScripts(None, NO_SCRIPTS)
            return RanScripts(None, f"{_FAILED} {fault.failure.message}")
        if reply.moved_to:
            return RanScripts(None, moved_to=reply.moved_to)
        url = reply.url or page.url
        ran = PageBytes(
            url, reply.html.encode("utf-8", "replace"), page.media_type, "utf-8",
            structs.replace(page.reply, url=url, etag="", modified=""),
        )  # fmt: skip
        if reply.cut == "deadline":
            return RanScripts(ran, _HURRIED)
        return RanScripts(ran, f"{_RAN} {_CUT.format(cut=reply.cut)}" if reply.cut else _RAN)
