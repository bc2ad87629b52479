"""Structured logs on standard error, each line with the trace and span that it belongs to."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog
from opentelemetry import trace

__all__ = ["configure_logging"]


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
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                add_service,
                render,
            ],
        )
    )
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


def _add_trace(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = format(context.trace_id, "032x")
        event["span_id"] = format(context.span_id, "016x")
    return event
