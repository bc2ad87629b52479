"""Holds changed definitions of tools until an operator approves them (setting HOLD_CHANGES).

The first definitions of a toolset are pinned in a file (`searchbus_runtime.pins`), which all
edges of a deployment share. Later ones that differ are held: the approved definition stays listed,
and calls are refused. `searchbus pins` shows and approves what is held.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from opentelemetry import metrics

from searchbus_bus import Directory
from searchbus_contracts import ErrorCode, Fault, ToolDescriptor
from searchbus_runtime.pins import Held, PinFile, Pins, Reviewed
from searchbus_runtime.waits import Wait

log = logging.getLogger("searchbus.edge")
EVERY = "*"
_CHECK_EVERY_S = 1.0
_held = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.tool.held", description="Definitions of tools that are held until their approval."
)


class Pinning:
    """The pins of one edge, of these toolsets (`*`: every one); `may_pin`: whether those of all
    edges are known, so that new toolsets may be pinned."""

    def __init__(
        self,
        file: PinFile,
        toolsets: Collection[str],
        *,
        may_pin: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._may_pin = may_pin
        self._toolsets = frozenset(toolsets)
        self._clock = clock
        self._pins: Pins | None = None
        self._stamp: object = object()
        self._checked_s = float("-inf")
        self._fault = self._logged = ""
        self._told: dict[str, dict[str, str]] = {}
        self._generation = 0

    @property
    def generation(self) -> int:
        """Increases whenever the pins change; the file is looked at once a second at most."""
        now_s = self._clock()
        if now_s - self._checked_s >= _CHECK_EVERY_S:
            self._checked_s = now_s
            self._reload()
        return self._generation

    def review(self, toolset: str, service: str, tools: Sequence[ToolDescriptor]) -> Reviewed:
        """What of a toolset may be listed, and what is held; pins a toolset that is new.

        Where the file cannot be read or written, or may differ from that of another edge, nothing
        new is approved: it is held.
        """
        if not self._toolsets & {EVERY, toolset}:
            return Reviewed(tuple(tools))
        if self._pins is None:
            self._reload()
        pins = self._pins or Pins()
        if toolset not in pins.toolsets and not self._fault and self._may_pin():
            pins = self._pin(toolset, service, tools)
        reviewed = pins.review(toolset, service, tools)
        self._tell(toolset, service, reviewed)
        return reviewed

    def _pin(self, toolset: str, service: str, tools: Sequence[ToolDescriptor]) -> Pins:
        """Approve the first definitions of a toolset, unless another edge already did."""
        try:
            with self._file.changing() as pins:
                if toolset not in pins.toolsets:
                    pins.approve(toolset, service, tools)
        except (OSError, ValueError) as error:
            self._report(error)
            return self._pins or Pins()
        # The file is read again at the next look: somebody may have written it since.
        self._pins, self._logged = pins, ""
        log.info("the %d tools of toolset %s of %s are pinned", len(tools), toolset, service)
        return pins

    def _reload(self) -> None:
        try:
            stamp = self._file.stamp(), self._may_pin()
            if stamp == self._stamp and not self._fault:
                return
            self._pins = self._file.read()
        except (OSError, ValueError) as error:
            self._report(error)
            return
        if stamp != self._stamp:
            self._logged = ""
        self._stamp, self._fault = stamp, ""
        self._generation += 1

    def _report(self, error: Exception) -> None:
        """Keep the last pins that were read; log each fault once."""
        self._fault = str(error)
        if self._fault != self._logged:
            self._logged = self._fault
            log.error("%s What is not pinned yet is held.", error)

    def _tell(self, toolset: str, service: str, reviewed: Reviewed) -> None:
        """Log and count each definition that is held, once."""
        told = self._told.get(toolset, {})
        for name, held in reviewed.held.items():
            if told.get(name) != held.sha256:
                _held.add(1, {"toolset": toolset})
                log.warning(
                    "%s: the tool %s of toolset %s is held: %s; see searchbus pins list",
                    service, name, toolset, "; ".join(held.reasons),
                )  # fmt: skip
        self._told[toolset] = {name: held.sha256 for name, held in reviewed.held.items()}


@dataclass(frozen=True, slots=True)
class HeldChange:
    """One held definition of a toolset's tool."""

    toolset: str
    service: str
    held: Held

    @property
    def name(self) -> str:
        """The toolset's name and the tool's."""
        return f"{self.toolset}.{self.held.tool.name}"

    @property
    def wait(self) -> Wait:
        """What a person is told of it."""
        text = f"{self.name} is held: {'; '.join(self.held.reasons)}."
        return Wait("held", self.name, text, f"searchbus pins diff {self.held.digits}")


def held_changes(directory: Directory, pins: Pins) -> list[HeldChange]:
    """What the services offer now and is not approved, of the toolsets that have pins."""
    found = []
    for catalog in directory.catalogs:
        for toolset in catalog.toolsets:
            if toolset not in pins.toolsets or directory.owner(toolset) != catalog.service:
                continue
            reviewed = pins.review(toolset, catalog.service, catalog.tools_of(toolset))
            found += [HeldChange(toolset, catalog.service, held) for held in reviewed.held.values()]
    return found


def decide(file: PinFile, changes: Iterable[HeldChange], *, approved: bool) -> None:
    """Approve or refuse definitions; raises OSError, ValueError."""
    with file.changing() as pins:
        change = pins.approve if approved else pins.refuse
        for one in changes:
            change(one.toolset, one.service, [one.held.tool])


class HeldChanges:
    """What differs from a file of pins; without a file nothing is held."""

    def __init__(self, directory: Directory, file: PinFile | None) -> None:
        self._directory = directory
        self._file = file

    def now(self) -> list[HeldChange]:
        """All held definitions; none while the file cannot be read, which the edge logs."""
        if self._file is None:
            return []
        try:
            pins = self._file.read()
        except (OSError, ValueError):
            return []
        return held_changes(self._directory, pins)

    def named(self, digits: str) -> HeldChange:
        """The definition with these digits; raises Fault(not_found)."""
        for change in self.now():
            if change.held.is_named_by(digits):
                return change
        raise Fault(ErrorCode.NOT_FOUND, "Nothing is held under these digits any more. Look again.")

    def decide(self, digits: str, *, approved: bool) -> HeldChange:
        """Approve or refuse one definition; raises Fault."""
        change = self.named(digits)
        assert self._file is not None
        try:
            decide(self._file, [change], approved=approved)
        except (OSError, ValueError) as error:
            raise Fault(
                ErrorCode.UNAVAILABLE, f"The decision cannot be written: {error}", retryable=False
            ) from None
        return change
