"""The audit log: who called which tool, when, with which outcome. Never arguments or results.

One line per call on the logger `searchbus.audit`; its measurements are fields of the JSON log. The
arguments are added only with the setting AUDIT_ARGUMENTS.
"""

from __future__ import annotations

import logging
from typing import Any

from searchbus_contracts import Actor

__all__ = ["record_call"]

log = logging.getLogger("searchbus.audit")


def record_call(
    actor: Actor,
    tool: str,
    *,
    outcome: str,
    duration_s: float,
    size_bytes: int,
    arguments: Any = None,
) -> None:
    """Write one line.

    Args:
        outcome: ok, or the code of the failure.
        size_bytes: of the result's text.
    """
    fields: dict[str, Any] = {
        "audit": True,
        "subject": actor.subject,
        "tool": tool,
        "outcome": outcome,
        "duration_ms": round(duration_s * 1000, 1),
        "bytes": size_bytes,
    }
    if arguments is not None:
        fields["arguments"] = arguments
    log.info("%s called %s: %s", actor.subject, tool, outcome, extra=fields)
