"""What an attached server offers, as it was read last: tools, prompts and resources."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from mcp import MCPError

from ..declare.servers import Server
from ..definitions.describe import ServerTools, describe
from ..definitions.describe_contents import ServerContents, describe_contents
from ..faults import ServerFault
from ..metrics import count_refused
from ..transports.remote import HttpNotes
from .connection import is_closed, is_refused, why
from .session import ServerSession

__all__ = ["Lists"]

log = logging.getLogger("searchbus.attach")
_MOST_LINES = 20
"""Of one reading: a server can change thousands of names every second."""
Listed = TypeVar("Listed")
Found = TypeVar("Found")


class Lists:
    """The lists of one server.

    Args:
        on_change: called when `tools` or `contents` changed.

    Attributes:
        tools: None before the first list, and once it was given up.
        contents: prompts and resources.
        stale: whether the server is away, or could not be asked for its lists again.
        given_up: whether its last lists are not kept any more.
        cost_s: our own time for the last reading, without that of the server.
    """

    def __init__(self, server: Server, on_change: Callable[[], None]) -> None:
        self._server = server
        self._on_change = on_change
        self.tools: ServerTools | None = None
        self.contents = ServerContents()
        self.stale = False
        self.given_up = False
        self.cost_s = 0.0

    async def read(self, session: ServerSession) -> None:
        """Read what the server offers; without prompts and resources it can still be used.

        Raises:
            MCPError: the tools cannot be listed, or the session ended.
            ServerFault: the list of tools is not one of MCP.
        """
        self.cost_s = 0.0
        tools = await self._in_thread(describe, await session.list_all())
        contents = self.contents
        try:
            contents = await self._in_thread(describe_contents, await session.list_contents())
        except (MCPError, ServerFault) as error:
            if isinstance(error, MCPError) and (is_closed(error) or is_refused(error)):
                raise
            log.warning(
                "%s: its prompts and resources cannot be read: %s",
                self._server.name, why(error, HttpNotes()),
            )  # fmt: skip
        self.stale = self.given_up = False
        self._report("tool ", tools.refused, self.tools.refused if self.tools is not None else {})
        self._report("", contents.refused, self.contents.refused)
        if (tools, contents) != (self.tools, self.contents):
            self.tools, self.contents = tools, contents
            self._on_change()

    async def _in_thread(
        self, describe: Callable[[Server, Listed, Callable[[], bool]], Found], listed: Listed
    ) -> Found:
        late, started_s = threading.Event(), time.monotonic()
        try:
            # The calls of other servers go on meanwhile.
            return await asyncio.to_thread(describe, self._server, listed, late.is_set)
        finally:
            late.set()
            self.cost_s += time.monotonic() - started_s

    def keep(self) -> None:
        """The server is away: the last lists stay, marked as stale."""
        self.stale = self.tools is not None

    def give_up(self, reason: str) -> None:
        """The server offers nothing until it is read again."""
        log.warning("%s: its tools are not listed: %s", self._server.name, reason)
        self.given_up = True
        self.tools, self.contents = None, ServerContents()
        self._on_change()  # also where there was no list: that of the last run is shown until now

    def _report(self, kind: str, refused: Mapping[str, str], before: Mapping[str, str]) -> None:
        """Count what cannot be listed, and log some of it, once."""
        if refused and refused != before:
            count_refused(self._server.name, len(refused))
            for name, reason in list(refused.items())[:_MOST_LINES]:
                log.warning("%s: the %s%s is not listed: %s", self._server.name, kind, name, reason)
            if len(refused) > _MOST_LINES:
                log.warning(
                    "%s: %d more are not listed; searchbus attach show %s",
                    self._server.name, len(refused) - _MOST_LINES, self._server.name,
                )  # fmt: skip
