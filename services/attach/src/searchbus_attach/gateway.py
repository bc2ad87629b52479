"""All attached servers: follows the file and the approvals, and keeps the worker's tools current.

A change of the file is applied within a second: a server that is new or has other keys is started
(anew), one that was removed is stopped; the others are not touched.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass

from searchbus_bus import Bus, Worker
from searchbus_bus.telemetry import LiveGauge
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.attach import StatusReply, StatusRequest, ViewPreview
from searchbus_runtime.pins import Held

from .attached import Attached
from .declare.attach_file import AttachFile
from .declare.auth_methods import OURSELVES
from .declare.servers import Server, variable
from .declare.views import DeclaredView
from .definitions.pinning import Approvals
from .definitions.viewing import preview
from .errors import ServerDeclarationError
from .metrics import count, meter
from .offering import Offering
from .policy import CallPolicy
from .sessions.leases import Leases
from .sessions.sessions import Sessions
from .transports.confinement import NO_LANDLOCK, landlock_abi
from .upstream.connection import ConnectionContext
from .upstream.upstream import Upstream

log = logging.getLogger("searchbus.attach")

_LOOK_EVERY_S = 1.0
_MERGE_S = 0.05
"""Changes of several servers are announced together."""


@dataclass(eq=False)
class Gateway:
    """The servers of a file as toolsets of a worker.

    Args:
        leases, bus: what workers share of the sessions of callers.
        policy: applies the views to calls.
        poll_s, grace_s: see Upstream.
    """

    worker: Worker
    file: AttachFile
    approvals: Approvals
    context: ConnectionContext
    leases: Leases
    bus: Bus
    policy: CallPolicy
    _: KW_ONLY
    poll_s: float = 300.0
    grace_s: float = 86_400.0

    def __post_init__(self) -> None:
        self._offering = Offering(self.worker)
        self._upstream = functools.partial(
            Upstream, context=self.context, poll_s=self.poll_s, grace_s=self.grace_s
        )
        self._attached: dict[str, Attached] = {}
        self._problem = ""
        self._file_stamp: object = object()
        self._emptied = False
        self._pins_stamp: object = self.approvals.stamp()
        self._logins_stamp: object = None
        # A server that is restarted takes seconds to end; the file may change meanwhile.
        self._applying = asyncio.Lock()
        self._dirty = asyncio.Event()
        self._changed: set[str] = set()
        self._announce: Callable[[], Awaitable[None]] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        for gauge in _GAUGES:
            gauge.watch(self)

    async def __aenter__(self) -> Gateway:
        """Read the file; the last lists of its servers are the worker's tools."""
        await self._look_at_file()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all servers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(attached.stop() for attached in self._attached.values()))
        await self.leases.stop()
        await self.context.aclose()

    def follow(self, announce: Callable[[], Awaitable[None]], instance: str) -> None:
        """Start the servers, follow them and the file, and open sessions of callers. The worker is
        `instance`; `announce` tells the bus that its tools changed."""
        self._announce = announce
        self.leases.start(instance)
        # No server starts before: one that is this searchbus itself is found by its worker.
        self.context.worker = instance
        for attached in self._attached.values():
            attached.upstream.start()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._look()), loop.create_task(self._announce_changes())]

    def status(self, request: StatusRequest) -> StatusReply:
        """The state of all servers, or of one with its tools."""
        found = tuple(
            attached.status(with_tools=request.server is not None)
            for name, attached in sorted(self._attached.items())
            if request.server in (None, name)
        )
        has_commands = any(attached.server.command for attached in self._attached.values())
        return StatusReply(
            servers=found, views=self._offering.views, file_problem=self._problem,
            unconfined="" if landlock_abi() or not has_commands else NO_LANDLOCK,
        )  # fmt: skip

    def server(self, name: str) -> Server | None:
        """A running server, with its variables expanded. Raises DeclarationError."""
        found = self._attached.get(name)
        return None if found is None else found.server.expanded(variable)

    def held(self, name: str) -> list[Held]:
        """What of a server differs from what was approved; raises Fault(not_found)."""
        return list(self._find(name).changed.values())

    def decide(self, name: str, digits: Collection[str], *, approved: bool) -> list[str]:
        """Approve or refuse definitions of a server, as they are now; their names. Raises as
        `Approvals.decide`."""
        attached = self._find(name)
        changed = attached.changed.values()
        return self.approvals.decide(attached.server, changed, digits, approved=approved)

    def preview(self, name: str, view: DeclaredView | None = None) -> ViewPreview:
        """What callers see of a server by a view (None: by that which counts); raises
        Fault(not_found)."""
        found = self._find(name)
        reviewed = found.reviewed
        return preview(found.server, found.view, view or found.view, reviewed.tools, reviewed.held)

    async def restart(self, name: str) -> None:
        """Stop a server and start it anew; raises Fault(not_found)."""
        async with self._applying:
            attached = self._find(name)
            views = {one: found.view for one, found in self._attached.items()}
            servers = {one: found.server for one, found in self._attached.items()}
            others = {o: server for o, server in servers.items() if server is not attached.server}
            try:
                await self._apply(others, views)
            finally:  # also where the operator does not wait for its end
                await self._apply(servers, views)

    def _find(self, name: str) -> Attached:
        found = self._attached.get(name)
        if found is None:
            raise Fault(ErrorCode.NOT_FOUND, f"No server {name} is attached. List them again.")
        return found

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                await self._look_at_file()
                self._look_at_pins()
                self._look_at_logins()
                for attached in self._attached.values():
                    attached.end_unused()
            except Exception:
                log.exception("the file of attached servers could not be followed")

    async def _look_at_file(self) -> None:
        try:
            stamp = self.file.stamp()
            if stamp == self._file_stamp:
                return
            self._file_stamp = stamp
            declared = self.file.read_all()
        except (ServerDeclarationError, OSError) as fault:
            if str(fault) != self._problem:
                self._problem = str(fault)
                count("file_faults")
                log.error("%s; the last valid version counts", fault)
            return
        self._problem = ""
        if self._attached and not declared.servers and not self._emptied:
            # Some editors empty or remove a file before they write it: the next look decides.
            self._emptied, self._file_stamp = True, object()
            return
        self._emptied = False
        self._offering.declare(declared.selections)
        servers = {name: s for name, s in declared.servers.items() if s.enabled}
        async with self._applying:
            await self._apply(servers, declared.views)
        if self._announce is None:
            self._offering.offer_selections(self._attached)
        self._dirty.set()

    async def _apply(
        self, servers: Mapping[str, Server], views: Mapping[str, DeclaredView]
    ) -> None:
        gone = [name for name, found in self._attached.items() if servers.get(name) != found.server]
        stopped = [self._attached.pop(name) for name in gone]
        for name in gone:
            self.context.budgets.pop(name, None)
        for name, server in servers.items():
            view = views.get(name, DeclaredView())
            known = self._attached.get(name)
            if known is not None and known.view != view:
                known.look_through(view)
                self._list(name)
            if known is None:
                upstream = self._upstream(server, on_list=self._on_list)
                self._attached[name] = Attached(
                    upstream,
                    self.approvals,
                    view,
                    functools.partial(self._list, name),
                    self._sessions(server),
                    policy=self.policy,
                )
                if self._announce is not None:
                    upstream.start()
                self._list(name)
        for name in gone:
            self._list(name)
        if stopped:
            log.info("%d servers are stopped or started anew", len(stopped))
        await asyncio.gather(*(attached.stop() for attached in stopped))

    def _sessions(self, server: Server) -> Sessions | None:
        """The sessions of callers, where these do not share one."""
        if server.state == "stateless":
            return None
        signs_in = server.state == "per_user"

        def connect(caller: str) -> Upstream:
            # Its list is that of the server's own connection, which is reviewed.
            caller = caller if signs_in else OURSELVES
            return self._upstream(server, on_list=lambda _: None, caller=caller, names_only=True)

        check = functools.partial(self.context.credentials.check, server) if signs_in else None
        return Sessions(server, connect, self.leases, self.bus, check)

    def _look_at_pins(self) -> None:
        stamp = self.approvals.stamp()
        if stamp == self._pins_stamp:
            return
        self._pins_stamp = stamp
        for name, attached in self._attached.items():
            if attached.upstream.lists.tools is not None:
                attached.review()
                self._list(name)

    def _look_at_logins(self) -> None:
        """A server that waits for a sign-in is tried at once after one."""
        stamp = self.context.credentials.stamp()
        if stamp == self._logins_stamp:
            return
        self._logins_stamp = stamp
        for attached in self._attached.values():
            if attached.server.auth is not None:
                attached.try_now()

    def _on_list(self, upstream: Upstream) -> None:
        attached = self._attached.get(upstream.server.name)
        if attached is not None and attached.upstream is upstream:
            attached.review()
            self._list(upstream.server.name)

    def _list(self, name: str) -> None:
        """One server's tools changed: the worker gets them before the next announcement."""
        if self._announce is None:
            self._offering.offer(name, self._attached.get(name))
        self._changed.add(name)
        self._dirty.set()

    async def _announce_changes(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(_MERGE_S)
            self._dirty.clear()
            assert self._announce is not None
            try:
                # Not earlier: an announcement reads the worker's tools in a thread.
                while self._changed:
                    name = self._changed.pop()
                    self._offering.offer(name, self._attached.get(name))
                self._offering.offer_selections(self._attached)
                await self._announce()
            except Exception:
                log.exception("the changed tools could not be announced")

    def values(self, read: Callable[[Attached], float]) -> list[tuple[float, dict[str, str]]]:
        """What is read of each server, with its label."""
        return [(read(found), {"server": name}) for name, found in self._attached.items()]


def _gauge(name: str, read: Callable[[Attached], float], description: str) -> LiveGauge[Gateway]:
    return LiveGauge(
        meter, name, lambda gateway: gateway.values(read),
        description=description,
    )  # fmt: skip


_GAUGES = (
    _gauge(
        "searchbus.attach.server.up",
        lambda found: float(found.upstream.state in ("up", "idle")),
        "Whether an attached server is connected, or starts with the next call.",
    ),
    _gauge(
        "searchbus.attach.server.stale",
        lambda found: float(found.upstream.lists.stale),
        "Whether the list of an attached server is the last one of a server that is away.",
    ),
    _gauge(
        "searchbus.attach.held",
        lambda found: float(found.held),
        "Definitions of attached servers that are held until an operator approves them.",
    ),
)
