"""Which definitions of a server may be listed: what was approved, by the server's policy.

    reviewed = approvals.review(server, tools)
    reviewed.tools, reviewed.held

The first definitions of a server are pinned in a file (`searchbus_runtime.pins`). A later one
that differs, also a tool that is new, is held, or taken and logged, as the policy says.
`searchbus attach approve` pins what is offered now.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from searchbus_contracts import ErrorCode, Fault, ToolDescriptor
from searchbus_runtime.pins import Held, PinFile, Pins, Reviewed

from ..declare.servers import Server
from ..metrics import count

log = logging.getLogger("searchbus.attach")
_MOST_LINES = 20
"""Lines of the log for one reading: a server can change thousands of definitions every second."""


class Approvals:
    """The pins of all attached servers."""

    def __init__(self, file: PinFile) -> None:
        self._file = file
        self._known: Pins | None = None
        """As they were read last."""
        self._told: dict[str, dict[str, str]] = {}

    def stamp(self) -> object:
        """Changes when somebody approves a definition; also while the file cannot be read."""
        try:
            return self._file.stamp()
        except OSError as error:
            return str(error)

    def pinned(self, server: Server) -> tuple[ToolDescriptor, ...]:
        """The approved definitions of a server: what is listed until it has been asked."""
        found = self._read().toolsets.get(server.name)
        if found is None or found.source != server.target:
            return ()
        return tuple(pin.tool for pin in found.tools.values())

    def review(self, server: Server, tools: tuple[ToolDescriptor, ...]) -> Reviewed:
        """What of a server may be listed, and what is held.

        Where the file cannot be read or written, nothing new is approved.
        """
        pins = self._read()
        if server.name not in pins.toolsets:
            if self._approve(server, tools, "are pinned", first=True):
                return Reviewed(tools)
            pins = self._read()
        reviewed = pins.review(server.name, server.target, tools)
        self._tell(server, reviewed)
        if server.change_policy == "hold" or not reviewed.held:
            return reviewed
        if server.change_policy == "accept":
            self._approve(server, tools, "are accepted as they are now")
            return Reviewed(tools)
        if self._known is None:  # what an operator refused is not known
            return reviewed
        return reviewed.only_refused(tools)

    def changed(self, server: Server, tools: tuple[ToolDescriptor, ...]) -> dict[str, Held]:
        """What differs from the approved definitions, whatever the policy."""
        return dict(self._read().review(server.name, server.target, tools).held)

    def decide(
        self, server: Server, found: Iterable[Held], digits: Collection[str], *, approved: bool
    ) -> list[str]:
        """Approve or refuse those of the definitions that differ which the digits name.

        Returns:
            Their names.

        Raises:
            Fault: not_found; digits that name none of them. invalid_argument; what the policy of
                the server accepts cannot be refused.
            OSError, ValueError: the file cannot be used.
        """
        if not approved and server.change_policy == "accept":
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"The policy of {server.name} accepts every change. Give it another one first: "
                "policy hold or warn.",
            )
        named = {given: [one for one in found if one.is_named_by(given)] for given in digits}
        if not named or not all(named.values()):
            raise Fault(
                ErrorCode.NOT_FOUND, "Nothing differs that has these digits any more. Look again."
            )
        tools = [one.tool for held in named.values() for one in held]
        with self._file.changing() as pins:
            change = pins.approve if approved else pins.refuse
            change(server.name, server.target, tools)
        return [tool.name for tool in tools]

    def _approve(
        self, server: Server, tools: tuple[ToolDescriptor, ...], what: str, *, first: bool = False
    ) -> bool:
        """Pin definitions (`first`: unless another worker pinned those of this server just before);
        whether they are pinned."""
        try:
            with self._file.changing() as pins:
                if first and server.name in pins.toolsets:
                    return False
                # What is accepted anyway need not stay: a server could have new names each time.
                pins.toolsets.pop(server.name, None)
                pins.approve(server.name, server.target, tools)
        except (OSError, ValueError) as error:
            log.error("%s. New definitions of %s are not approved.", error, server.name)
            return False
        log.info("the %d tools of %s %s", len(tools), server.name, what)
        return True

    def _read(self) -> Pins:
        try:
            self._known = self._file.read()
        except (OSError, ValueError) as error:
            log.error("%s What was not pinned before is held.", error)
        return self._known or Pins()

    def _tell(self, server: Server, reviewed: Reviewed) -> None:
        """Count each definition that differs, and log some of them, once."""
        told = self._told.get(server.name, {})
        lines = 0
        for name, held in reviewed.held.items():
            if told.get(name) == held.sha256:
                continue
            count("changes", server=server.name, policy=server.change_policy)
            lines += 1
            if lines <= _MOST_LINES:
                log.warning(
                    "%s: the definition of %s changed (policy %s): %s; searchbus attach diff %s",
                    server.name, name, server.change_policy, "; ".join(held.reasons), server.name,
                )  # fmt: skip
        if lines > _MOST_LINES:
            log.warning(
                "%s: %d more definitions changed; searchbus attach diff %s",
                server.name, lines - _MOST_LINES, server.name,
            )  # fmt: skip
        self._told[server.name] = {name: held.sha256 for name, held in reviewed.held.items()}
