"""A watch of the event loop: which request held it, and for how long.

A timer of the loop notes the time; once it is late, a thread reads the stack of the loop's thread,
where `serves` has marked the functions that serve a request. Without requests both wake every five
seconds, so that an idle process costs next to nothing. One call into C that keeps Python's lock is
measured, but its request may stay unknown.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

from .telemetry import meter

log = logging.getLogger("searchbus.loop")
F = TypeVar("F", bound=Callable[..., Any])
Describe = Callable[[Mapping[str, Any]], str]

HELD_S = 0.25
"""A longer turn is logged and counted."""
LOG_EVERY_S = 10.0
_INTERVAL_S = 0.1
"""How often the timer and the thread run; a turn is measured from when the timer was due."""
_IDLE_INTERVAL_S = 5.0
"""The same while no request comes: what holds the loop for less may be missed then."""
_IDLE_AFTER_S = 1.0
_MAX_CHARS = 200
_served: dict[CodeType, Describe] = {}
_running: LoopWatch | None = None
_held = meter.create_counter(
    "searchbus.loop.held",
    description="Turns of the event loop of more than 250 ms, in which nothing else was served.",
)


def serves(describe: Describe) -> Callable[[F], F]:
    """Mark a function that serves a request; `describe` names it by its local variables, and raises
    KeyError or AttributeError while they are not set."""

    def mark(function: F) -> F:
        _served[function.__code__] = describe

        @functools.wraps(function)
        def watched(*args: Any, **options: Any) -> Any:
            if _running is not None:
                _running.note_request()
            return function(*args, **options)

        return watched  # type: ignore[return-value]

    return mark


class LoopWatch:
    """Watches one event loop, from `start` until `stop`: turns over `held_s` are counted, and
    logged once in `log_every_s`."""

    def __init__(self, *, held_s: float = HELD_S, log_every_s: float = LOG_EVERY_S) -> None:
        self._held_s = held_s
        self._log_every_s = log_every_s
        self._busy_interval_s = min(_INTERVAL_S, held_s / 2)
        self._interval_s = _IDLE_INTERVAL_S
        self._used = False
        self._ended = False
        self._changed = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = self._cpu_s = self._idle_from_s = 0.0
        self._place = self._requests = ""
        self._quiet_until_s = 0.0
        self._left_out = 0

    def start(self) -> None:
        """Watch the running loop."""
        global _running
        _running = self
        _held.add(0)
        self._loop = asyncio.get_running_loop()
        self._set_timer()
        threading.Thread(
            target=self._look, args=(threading.get_ident(),), name="loop-watch", daemon=True
        ).start()

    def stop(self) -> None:
        """Watch no longer."""
        global _running
        _running = None
        self._ended = True
        self._changed.set()
        if self._timer is not None:
            self._timer.cancel()

    def note_request(self) -> None:
        """A request is about to be served: look often from now on."""
        self._used = True
        if self._interval_s == _IDLE_INTERVAL_S and self._timer is not None:
            self._timer.cancel()
            self._interval_s = self._busy_interval_s
            self._set_timer()
            self._changed.set()

    def _set_timer(self) -> None:
        self._cpu_s = time.thread_time()
        self._place, self._requests = "an unknown place", ""
        self._due_s = time.monotonic() + self._interval_s
        self._timer = self._loop.call_later(self._interval_s, self._on_time)

    def _on_time(self) -> None:
        late_s = time.monotonic() - self._due_s
        cpu_s = time.thread_time() - self._cpu_s
        # Without CPU time and a request, the machine was busy with something else.
        if late_s > self._held_s and (cpu_s > late_s / 5 or self._requests):
            self._report(late_s, cpu_s)
        now_s = time.monotonic()
        if self._used:
            self._used, self._idle_from_s = False, now_s + _IDLE_AFTER_S
        elif now_s > self._idle_from_s:
            self._interval_s = _IDLE_INTERVAL_S
        self._set_timer()

    def _report(self, late_s: float, cpu_s: float) -> None:
        _held.add(1)
        now_s = time.monotonic()
        if now_s < self._quiet_until_s:
            self._left_out += 1
            return
        log.warning(
            "the event loop was held for %.0f ms (%.0f ms of CPU time) at %s (%s); "
            "%d more since the last line",
            1000 * late_s, 1000 * cpu_s, self._place, self._requests or "request unknown",
            self._left_out,
        )  # fmt: skip
        self._quiet_until_s, self._left_out = now_s + self._log_every_s, 0

    def _look(self, thread: int) -> None:
        """Note what runs while the timer is late."""
        late_s = self._held_s / 2
        while not self._ended:
            # Until the timer may be late: it runs more often than this thread.
            left_s = self._due_s + late_s - time.monotonic()
            if self._changed.wait(left_s if left_s > 0 else self._busy_interval_s):
                self._changed.clear()
            elif time.monotonic() - self._due_s > late_s:
                frame = sys._current_frames().get(thread)
                requests = _requests(frame)
                if frame is not None and (requests or not self._requests):
                    file = Path(frame.f_code.co_filename).name
                    self._place = f"{file}:{frame.f_lineno} {frame.f_code.co_qualname}"
                    self._requests = requests


def _requests(frame: FrameType | None) -> str:
    """What a stack serves, the innermost first."""
    found = []
    while frame is not None:
        describe = _served.get(frame.f_code)
        if describe is not None:
            try:
                found.append(describe(frame.f_locals)[:_MAX_CHARS])
            except (AttributeError, KeyError):
                found.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return "; ".join(found)
