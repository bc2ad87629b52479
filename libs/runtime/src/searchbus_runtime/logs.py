"""Structured logs on standard error, each line with the trace and span that it belongs to."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import structlog
from opentelemetry import trace

__all__ = ["configure_logging"]

AUDIT_LOGGER = "searchbus.audit"
_OF_EVERY_RECORD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
_encoder = msgspec.json.Encoder(enc_hook=str)


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
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace,
        structlog.processors.format_exc_info,
    ]
    if style == "json":
        render: Any = structlog.processors.JSONRenderer()
    else:
        render = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )

    def add_service(_: Any, __: str, event: Any) -> Any:
        event["service"] = service
        return event

    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            add_service,
            render,
        ],
    )
    handler.setFormatter(_AuditLines(service, formatter) if style == "json" else formatter)
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
        logger.setLevel(logging.WARNING)


class _AuditLines(logging.Formatter):
    """Formats lines of the audit log with the fields of each; passes all others on.

    There is one for every tool call: structlog's processors took four times as long.
    """

    def __init__(self, service: str, others: logging.Formatter) -> None:
        super().__init__()
        self._service = service
        self._others = others

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        if record.name != AUDIT_LOGGER:
            return self._others.format(record)
        line: dict[str, Any] = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, UTC)
            .isoformat()
            .replace("+00:00", "Z"),
        }
        _add_trace(None, "", line)
        line |= {k: v for k, v in record.__dict__.items() if k not in _OF_EVERY_RECORD}
        line["service"] = self._service
        return _encoder.encode(line).decode()


def _add_trace(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = format(context.trace_id, "032x")
        event["span_id"] = format(context.span_id, "016x")
    return event
