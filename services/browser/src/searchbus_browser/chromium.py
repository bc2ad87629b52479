"""One Chromium for one page: started, spoken to by the DevTools protocol on a pipe, and killed.

No port is opened for it: messages are JSON that ends with a zero byte, on its descriptors 3 and 4.
A page that hangs, allocates or crashes thereby costs itself only, and leaves nothing: the process
group is killed, and the profile is deleted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

log = logging.getLogger("searchbus.browser")

OnEvent = Callable[[str, Mapping[str, Any], str], None]
"""Called with the method, the parameters and the session of each event, one after another."""
MAX_MESSAGE_BYTES = 16 * 2**20
_MAX_FILE_BYTES = 64 * 2**20
_WATCH_INTERVAL_S = 0.2
_POLL_S = 0.02
_GONE_S = 10.0
_LAUNCH = (
    'ulimit -c 0; ulimit -f "$1"; ulimit -d "$2"; shift 2; '
    'exec "$@" 3<&0 4>&1 </dev/null >/dev/null'
)
"""A shell sets the limits of all its processes, and moves the pipes to 3 and 4."""
_FLAGS = (
    "--headless", "--remote-debugging-pipe", "--no-startup-window", "--no-first-run",
    "--no-default-browser-check", "--disable-gpu", "--disable-dev-shm-usage", "--mute-audio",
    "--disable-breakpad", "--disable-crash-reporter", "--disable-extensions", "--disable-sync",
    "--disable-component-update", "--disable-background-networking", "--disable-default-apps",
    "--disable-domain-reliability", "--disable-client-side-phishing-detection", "--no-pings",
    "--disable-quic", "--disable-notifications", "--deny-permission-prompts",
    # What is not of the page's context, such as the browser's own services, leads nowhere.
    "--proxy-server=socks5://127.0.0.1:1", "--proxy-bypass-list=<-loopback>",
    # Names are for the proxy: Chromium itself resolves none, not even ahead of time.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-external-intent-requests", "--disable-print-preview", "--disable-speech-api",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--blink-settings=imagesEnabled=false", "--disk-cache-size=1", "--password-store=basic",
    "--use-mock-keychain", "--js-flags=--max-old-space-size=256",
    "--disable-features=MediaRouter,DialMediaRouteProvider,OptimizationHints,Translate,HttpsUpgrades,"
    "HttpsFirstBalancedMode,HttpsFirstBalancedModeAutoEnable,HttpsFirstModeV2,"
    "AutofillServerCommunication,CertificateTransparencyComponentUpdater,AsyncDns,DnsOverHttps,"
    "WebRtcHideLocalIpsWithMdns,InterestFeedContentSuggestions,NetworkTimeServiceQuerying",
)  # fmt: skip


class BrowserError(Exception):
    """A Chromium cannot be used any more.

    Args:
        reason: start, ended, memory, message.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


@dataclass(eq=False)
class Chromium:
    """Use as an asynchronous context manager.

    Args:
        path: of the program.
        memory_bytes: of all its processes; one of them alone may not allocate more either.
        sandbox: whether Chromium's own sandbox is on; root and most containers cannot have it.
        on_event: called with each event; it may `post`.
    """

    path: Path
    _: KW_ONLY
    memory_bytes: int
    sandbox: bool
    user_agent: str
    on_event: OnEvent

    def __post_init__(self) -> None:
        self._number = 0
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has BrowserError once nothing more is to be had of it."""
        self.ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def __aenter__(self) -> Self:
        try:
            self._folder = _new_folder()
            try:
                self._process = await self._started(self._folder)
            except BaseException:
                await self._delete_folder()
                raise
        except OSError as error:  # a full disk, or the limit of processes
            raise BrowserError("start", str(error)) from error
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._watch())]
        return self

    async def _started(self, folder: Path) -> Process:
        limits = [str(_MAX_FILE_BYTES // 512), str(self.memory_bytes // 1024)]
        sandboxed = () if self.sandbox else ("--no-sandbox",)
        with (folder / "stderr").open("wb") as errors:
            return await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", _LAUNCH, "sh", *limits, str(self.path), *_FLAGS, *sandboxed,
                f"--user-agent={self.user_agent}", f"--user-data-dir={folder / 'profile'}",
                stdin=PIPE, stdout=PIPE, stderr=errors, limit=MAX_MESSAGE_BYTES,
                start_new_session=True, cwd=folder,
                # Nothing of the service's environment, which may hold secrets.
                env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8",
                     "HOME": str(folder), "TMPDIR": str(folder)},
            )  # fmt: skip

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        try:
            await asyncio.shield(self._process.wait())
            await self._all_gone(self._process.pid)
        finally:
            self._end("ended")
            await self._delete_folder()

    async def _all_gone(self, group: int) -> None:
        """Wait for the other killed processes: until they are gone, they may write a file."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + _GONE_S
        while loop.time() < give_up_s:
            left = _reap_orphans(self._folder)
            try:
                os.killpg(group, 0)
            except OSError:  # macOS refuses it for processes that have ended
                if not left:
                    return
            await asyncio.sleep(_POLL_S)
        log.warning("processes of a page are not gone %.0f s after they were killed", _GONE_S)

    async def _delete_folder(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def send(self, method: str, session: str = "", **parameters: Any) -> Any:
        """Send a command; returns its result, or None for a command that failed.

        Raises:
            BrowserError: it ended.
        """
        number = self.post(method, session, **parameters)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((reply, self.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._replies[number]
        return reply.result() if reply.done() else self.ended.result()

    def post(self, method: str, session: str = "", **parameters: Any) -> int:
        """Send a command whose result nobody needs; returns its number."""
        assert self._process.stdin is not None
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        if self._process.stdin.is_closing():  # uvloop raises where one writes all the same
            self._end("ended", self._last_words())
        else:
            self._process.stdin.write(json.dumps(message).encode() + b"\0")
        return self._number

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                message = json.loads((await self._process.stdout.readuntil(b"\0"))[:-1])
                if (number := message.get("id")) is None:
                    self.on_event(
                        message["method"], message.get("params", {}), message.get("sessionId", "")
                    )
                elif (reply := self._replies.get(number)) is not None and not reply.done():
                    reply.set_result(message.get("result"))
        except asyncio.LimitOverrunError:
            self._end("message", f"over {MAX_MESSAGE_BYTES} bytes")
        except (asyncio.IncompleteReadError, OSError, ValueError, RecursionError):
            self._end("ended", self._last_words())

    async def _watch(self) -> None:
        while not self.ended.done():
            await asyncio.sleep(_WATCH_INTERVAL_S)
            if (used := _memory_of_group(self._process.pid)) > self.memory_bytes:
                self._end("memory", f"{used} bytes")

    def crashed(self) -> None:
        """Say that the page crashed."""
        self._end("ended", "the page crashed")

    def _end(self, reason: str, detail: str = "") -> None:
        if not self.ended.done():
            self.ended.set_exception(BrowserError(reason, detail))

    def _last_words(self) -> str:
        try:
            return (self._folder / "stderr").read_text(errors="replace")[-300:]
        except OSError:
            return ""


def _new_folder() -> Path:
    """A short path: a socket below it may have one of about 100 characters."""
    return Path(tempfile.mkdtemp(prefix="page-")).resolve()


def _processes() -> Iterator[tuple[Path, int]]:
    """The folder and the group of every process; nothing where there is no /proc."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):  # it ended
            yield entry, os.getpgid(int(entry.name))


def _reap_orphans(folder: Path) -> bool:
    """Wait for processes of Chromiums that have ended and are children of this process now.

    Nobody else does where this is the first process of a container. Some, which report crashes,
    have left the group: those that run in `folder` are killed here. Returns whether one is left
    that may be of this folder; one that is ending has none any more.
    """
    left = False
    for entry, group in _processes():
        # What this process started itself leads a group, or is of its own.
        if group in (int(entry.name), os.getpgrp()):
            continue
        with suppress(ChildProcessError):
            if os.waitpid(int(entry.name), os.WNOHANG)[0]:
                continue
            try:
                found: Path | None = (entry / "cwd").readlink()
            except OSError:
                found = None  # it is ending
            if found == folder:
                os.kill(int(entry.name), signal.SIGKILL)
            left = left or found in (folder, None)
    return left


def _memory_of_group(wanted: int) -> int:
    """Bytes that the processes of a group hold of their own; 0 where there is no /proc."""
    total = 0
    for entry, group in _processes():
        if group != wanted:
            continue
        try:
            status = (entry / "status").read_text()
        except OSError:
            continue  # it ended
        for line in status.splitlines():
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += int(line.split()[1]) * 1024
    return total
