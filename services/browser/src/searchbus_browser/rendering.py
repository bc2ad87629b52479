"""Runs the scripts of one page, and returns what they made of it.

The page itself is not fetched here: the caller fetched it, by robots.txt and in its host's pace,
and its bytes are given to Chromium. An address that scripts lead to is returned, so that the caller
fetches it by the same rules. Scripts, styles and data are loaded here, through `PageProxy`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urlsplit

from opentelemetry import metrics

from searchbus_bus import Call, endpoint
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.web import RenderReply, RenderRequest
from searchbus_upstream import GuardedBackend

from .chromium import BrowserError, Chromium
from .places import Places
from .proxy import PageProxy

log = logging.getLogger("searchbus.browser")
_pages = metrics.get_meter("searchbus.browser").create_counter(
    "searchbus.browser.pages", description="Pages whose scripts were run, by outcome."
)

MAX_REQUESTS = 200
MAX_CONNECTIONS = 100
MAX_BYTES = 16 * 2**20
MAX_HTML_CHARS = 2_000_000
_TAKE_S = 5.0
"""For the HTML of a page that has loaded; a script that never ends lets nobody read it."""
_LOADED = frozenset({"Script", "Stylesheet", "XHR", "Fetch", "EventSource", "WebSocket"})
"""Kinds of requests that are sent; images, fonts, media, frames and pings are not."""
_HTML = f"document.documentElement.outerHTML.slice(0, {MAX_HTML_CHARS + 1})"
_FAILURES = {
    "start": (ErrorCode.UNAVAILABLE, "Chromium does not start. Read the browser service's log."),
    "ended": (ErrorCode.UPSTREAM_FAILED, "The page's scripts end the browser. Use another page."),
    "memory": (ErrorCode.UPSTREAM_FAILED, "The page needs too much memory. Use another page."),
    "message": (ErrorCode.UPSTREAM_FAILED, "The page is too large. Use another page."),
    "seconds": (ErrorCode.UPSTREAM_FAILED, "The page's scripts do not end. Use another page."),
}  # fmt: skip


@dataclass(eq=False)
class Renderer:
    """Runs pages in browsers of their own, some at once; others wait (`Places`).

    Args:
        chromium: the program; None where there is none.
        settle_s: how long a page may load; what is there then is returned.
    """

    chromium: Path | None
    guard: GuardedBackend
    _: KW_ONLY
    pages: int
    settle_s: float
    memory_bytes: int
    sandbox: bool

    def __post_init__(self) -> None:
        self._places = Places(self.pages)

    @endpoint
    async def render(self, call: Call, request: RenderRequest) -> RenderReply:
        """Run the scripts of a page that was fetched.

        Raises:
            Fault: unavailable, deadline_exceeded, upstream_failed.
        """
        if self.chromium is None:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                "There is no Chromium. Give SEARCHBUS_BROWSER_CHROMIUM the path of one (apt-get "
                "install chromium).",
                retryable=False,
            )
        reason = "cancelled"
        end_s = asyncio.get_running_loop().time() + call.remaining_s
        try:
            async with asyncio.timeout_at(end_s), self._places.of(call.actor.subject):
                reply = await self._run(self.chromium, request, end_s - _TAKE_S)
            reason = "moved" if reply.moved_to else reply.cut or "complete"
            return reply
        except TimeoutError:
            reason = "deadline"
            raise Fault(
                ErrorCode.DEADLINE_EXCEEDED,
                "The scripts of the page were not run in time. Try again, with more time.",
            ) from None
        except BrowserError as error:
            reason = error.reason
            log.warning("a page was given up: %s", error)
            raise Fault(*_FAILURES[reason], retryable=False) from None
        finally:
            _pages.add(1, {"outcome": reason})

    async def _run(self, chromium: Path, request: RenderRequest, end_s: float) -> RenderReply:
        page = _Page(request)
        guard = self.guard.for_page(urlsplit(request.url).hostname or "")
        async with (
            PageProxy(guard, max_bytes=MAX_BYTES, max_connections=MAX_CONNECTIONS) as proxy,
            Chromium(
                chromium,
                memory_bytes=self.memory_bytes,
                sandbox=self.sandbox,
                user_agent=request.user_agent,
                on_event=page.on_event,
            ) as browser,
        ):
            try:
                await page.open(browser, proxy.port)
            except BrowserError as error:
                raise BrowserError("start", str(error)) from None
            left_s = end_s - asyncio.get_running_loop().time()
            cut = await page.settle(max(0.0, min(self.settle_s, left_s)))
            if cut == "seconds" and left_s < self.settle_s:
                cut = "deadline"
            if page.moved_to:
                return RenderReply(moved_to=page.moved_to)
            try:
                async with asyncio.timeout(_TAKE_S):
                    html, url = await page.taken()
            except TimeoutError:
                raise BrowserError("seconds") from None
        if len(html) > MAX_HTML_CHARS:
            html, cut = html[:MAX_HTML_CHARS], "chars"
        return RenderReply(html=html, url=url, cut="bytes" if proxy.spent else cut)


class _Page:
    """The page of one browser, and what is allowed to it."""

    _browser: Chromium

    def __init__(self, request: RenderRequest) -> None:
        self._request = request
        self._target = self._session = self._frame = self._loader = ""
        self._given = False
        self._requests = 0
        self._done = asyncio.Event()
        self.moved_to = ""

    async def open(self, browser: Chromium, proxy_port: int) -> None:
        """Open the page in a context of its own, which keeps nothing on disk.

        Args:
            proxy_port: of the SOCKS5 proxy on 127.0.0.1, its only way to the network.
        """
        self._browser = browser
        context = await self._sent(
            "Target.createBrowserContext", disposeOnDetach=True,
            proxyServer=f"socks5://127.0.0.1:{proxy_port}", proxyBypassList="<-loopback>",
        )  # fmt: skip
        await browser.send("Browser.setDownloadBehavior", behavior="deny", **context)
        target = await self._sent("Target.createTarget", url="about:blank", **context)
        self._target = target["targetId"]
        attached = await self._sent("Target.attachToTarget", flatten=True, **target)
        self._session = attached["sessionId"]
        # What it opens waits for a debugger: windows are closed, workers wait for ever.
        for session in ("", self._session):
            await browser.send(
                "Target.setAutoAttach", session, autoAttach=True, waitForDebuggerOnStart=True,
                flatten=True, filter=[{"type": "browser", "exclude": True}, {}],
            )  # fmt: skip
        tree = await browser.send("Page.getFrameTree", self._session)
        self._frame = tree["frameTree"]["frame"]["id"]
        for method, parameters in (
            ("Page.enable", {}),
            ("Page.setLifecycleEventsEnabled", {"enabled": True}),
            ("Network.enable", {}),
            ("Network.setBypassServiceWorker", {"bypass": True}),
            ("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}),
        ):
            await browser.send(method, self._session, **parameters)
        browser.post("Page.navigate", self._session, url=self._request.url)

    async def settle(self, settle_s: float) -> str:
        """Wait until the page loads nothing more; returns the limit that it reached first."""
        done = asyncio.create_task(self._done.wait())
        try:
            await asyncio.wait(
                (done, self._browser.ended), timeout=settle_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            done.cancel()
        if self._requests > MAX_REQUESTS:
            return "requests"
        return "" if self._done.is_set() else "seconds"

    async def taken(self) -> tuple[str, str]:
        """The HTML and the address, read where the page's scripts have no influence."""
        world = await self._sent("Page.createIsolatedWorld", self._session, frameId=self._frame)
        found = []
        for expression in (_HTML, "location.href"):
            reply = await self._sent(
                "Runtime.evaluate", self._session, expression=expression, returnByValue=True,
                contextId=world["executionContextId"],
            )  # fmt: skip
            text = str(reply["result"].get("value", ""))
            # Strings of scripts may have halves of surrogate pairs, which no message can have.
            found.append(text.encode("utf-8", "replace").decode())
        html, url = found
        same = urlsplit(url)[:2] == urlsplit(self._request.url)[:2]
        return html, url if same else self._request.url

    async def _sent(self, method: str, session: str = "", **parameters: Any) -> Any:
        result = await self._browser.send(method, session, **parameters)
        if result is None:
            raise BrowserError("ended", f"{method} failed")
        return result

    def on_event(self, method: str, event: Mapping[str, Any], session: str) -> None:
        """Decide on what the page does."""
        browser = self._browser
        if method == "Fetch.requestPaused":
            self._decide(browser, event, session)
        elif method == "Target.attachedToTarget":
            opened = event["targetInfo"]
            if opened["type"] == "page" and opened["targetId"] != self._target:
                browser.post("Target.closeTarget", targetId=opened["targetId"])
        elif method == "Page.javascriptDialogOpening":
            browser.post("Page.handleJavaScriptDialog", session, accept=False)
        elif method == "Inspector.targetCrashed":
            browser.crashed()
        elif method == "Page.lifecycleEvent" and event["frameId"] == self._frame and self._given:
            # The empty page before may become idle meanwhile: its loader is another one.
            if event["name"] == "init":
                self._loader = event["loaderId"]
            elif event["name"] == "networkIdle" and event["loaderId"] == self._loader:
                self._done.set()

    def _decide(self, browser: Chromium, event: Mapping[str, Any], session: str) -> None:
        number, request, kind = event["requestId"], event["request"], event["resourceType"]
        self._requests += 1
        if kind == "Document" and event["frameId"] == self._frame and not self._given:
            self._given = True
            browser.post(
                "Fetch.fulfillRequest", session, requestId=number, responseCode=200,
                responseHeaders=[{"name": "Content-Type", "value": self._request.content_type}],
                body=base64.b64encode(self._request.body).decode(),
            )  # fmt: skip
            return
        if kind == "Document" and event["frameId"] == self._frame:
            # `Aborted` leaves the page as it is, where another reason shows a page of the browser.
            browser.post("Fetch.failRequest", session, requestId=number, errorReason="Aborted")
            target = request["url"]
            is_page = request["method"] == "GET" and target.startswith(("http://", "https://"))
            if is_page and _page_of(target) != _page_of(self._request.url):
                self.moved_to = target
                self._done.set()
        elif kind in _LOADED and not _is_ahead(request) and self._requests <= MAX_REQUESTS:
            browser.post("Fetch.continueRequest", session, requestId=number)
        else:
            reason = "BlockedByClient"
            browser.post("Fetch.failRequest", session, requestId=number, errorReason=reason)
            if self._requests > MAX_REQUESTS:
                self._done.set()


def _is_ahead(request: Mapping[str, Any]) -> bool:
    """Whether it is for a page that somebody may open later; scripts cannot set these headers."""
    return not {"purpose", "sec-purpose"}.isdisjoint(name.lower() for name in request["headers"])


def _page_of(url: str) -> str:
    return urldefrag(url)[0]
