"""Structured logs on standard error, each line with the trace and span that it belongs to."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec
from opentelemetry import trace

from .wording import printable, without_credentials

_NAMED_FIELDS = ("service", "trace_id", "span_id")
_encoder = msgspec.json.Encoder()


def configure_logging(
    service: str, *, level: str = "info", style: Literal["auto", "json", "console"] = "auto"
) -> None:
    """Send every logger of the process through one formatter.

    Args:
        service: part of every line.
        level: "debug", "info", "warning" or "error".
        style: "json": one object per line; "console": for people; "auto": console on a terminal,
            else json.
    """
    if style == "auto":
        style = "console" if sys.stderr.isatty() else "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(service, json=style == "json"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("httpx", "httpcore", "httpx2", "uvicorn.access", "mcp"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # An unreachable collector costs one line per batch, not one per retry.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        # It warns of each request that is no HTTP: strangers would fill the log. See protocol.py.
        logger.setLevel(logging.ERROR)


def log_lines(logger: logging.Logger, lines: Sequence[bytes]) -> None:
    """Log many lines at level INFO as one record, which is formatted and written at once.

    For logs with a line per request: a record of its own for each costs four times as much.

    Args:
        lines: each a JSON object with the fields of its own; `event` is its text, `timestamp` its
            time as `timestamp` writes it.
    """
    if lines:
        logger.info("%s", _Events(lines), extra={"lines": lines})


def timestamp(time_s: float) -> str:
    """A time in seconds of the epoch as all lines have it, ISO 8601 with microseconds."""
    second, fraction = divmod(time_s, 1)
    return f"{_second(int(second))}.{int(fraction * 1e6):06d}Z"


class _Events:
    """The texts of lines, for handlers with another formatter."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines

    def __str__(self) -> str:
        return "\n".join(msgspec.json.decode(line)["event"] for line in self._lines)


class _Formatter(logging.Formatter):
    """One line for a record, and one for each line of a record of `log_lines`."""

    def __init__(self, service: str, *, json: bool) -> None:
        super().__init__()
        self._service = service
        self._json = json

    def format(self, record: logging.LogRecord) -> str:
        """JSON objects, or lines for people."""
        lines: Sequence[bytes] | None = getattr(record, "lines", None)
        if lines is None:
            lines = [self._line(record)]
        shared = {
            "level": record.levelname.lower(),
            "logger": record.name,
            "service": self._service,
        }
        if self._json:
            # The fields that all lines share are the beginning of each.
            head = _encoder.encode(shared)[:-1] + b","
            return b"\n".join([head + line[1:] for line in lines]).decode()
        return "\n".join(_for_people({**json.loads(line), **shared}) for line in lines)

    def _line(self, record: logging.LogRecord) -> bytes:
        """The fields of a record of its own."""
        fields = {"event": record.getMessage(), "timestamp": timestamp(record.created)}
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            fields["trace_id"] = format(context.trace_id, "032x")
            fields["span_id"] = format(context.span_id, "016x")
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # Not msgspec's: a text may have half a pair of surrogates. Libraries name URLs in errors.
        return without_credentials(json.dumps(fields)).encode()


def _for_people(fields: dict[str, Any]) -> str:
    """Control characters of others as escapes, and one line except for a traceback."""
    shown = {
        name: printable(str(value), one_line=name != "exception") for name, value in fields.items()
    }
    named = " ".join(f"{name}={shown[name]}" for name in _NAMED_FIELDS if name in shown)
    text = f"{shown['timestamp']} [{shown['level']:<8}] {shown['event']:<30} [{shown['logger']}]"
    return "\n".join(filter(None, (f"{text} {named}", shown.get("exception"))))


@lru_cache(maxsize=4)
def _second(second: int) -> str:
    """A whole second; formatting a date costs more than the rest of a line."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


_AT_ONCE = 1000


class LineQueue:
    """Lines that a thread writes, in the order of `add`: no request waits for a file.

    A line is encoded before it is queued. Kept as objects, thousands of them would leave the
    processor's caches, and a thread that encodes them holds the interpreter for milliseconds.

    Args:
        write: gets the next lines, at most 1,000 at once; must not raise.
        name: of the thread, which starts with the first line.
        every_s: seconds between two writes.
        max_queued: a further line is refused.
    """

    def __init__(
        self, write: Callable[[list[bytes]], None], *, name: str, every_s: float, max_queued: int
    ) -> None:
        self._write = write
        self._name = name
        self._every_s = every_s
        self._max_queued = max_queued
        self._lines: deque[bytes] = deque()
        self._writing = threading.Lock()
        self._waiting = threading.Event()
        self._closed = threading.Event()
        self._sleeping = False
        self._thread: threading.Thread | None = None

    def add(self, line: bytes) -> bool:
        """Queue a line; False, and nothing done, where the queue is full."""
        if len(self._lines) >= self._max_queued:
            return False
        self._lines.append(line)
        if self._sleeping:  # in a busy process the thread comes by itself
            self._waiting.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return True

    def flush(self) -> None:
        """Write every queued line now."""
        with self._writing:
            while self._lines:
                count = min(len(self._lines), _AT_ONCE)
                self._write([self._lines.popleft() for _ in range(count)])

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._closed.set()
        self._waiting.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.flush()

    def _run(self) -> None:
        # A tick as long as there are lines; without them it sleeps.
        while not self._closed.wait(self._every_s):
            if self._lines:
                self.flush()
                continue
            self._waiting.clear()
            self._sleeping = True
            # A line, or the end, that came before this thread said so woke nobody.
            if not self._lines and not self._closed.is_set():
                self._waiting.wait()
            self._sleeping = False
