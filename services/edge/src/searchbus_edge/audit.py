"""The audit log: who called what, when, how it ended. Never what was said.

One line a call on the logger `searchbus.audit`, with its figures as fields of the JSON log.
Arguments stand in it only where `audit_arguments` asks for them.
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
        size_bytes: of the answer's text.
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
