"""What is compared: a running system and how it is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["System"]


@dataclass(frozen=True)
class System:
    """A running system.

    Args:
        name: as in the tables; the revision of MCP is part of it where there are several.
        spec: a call of `echo`, for the load.
        pids: the processes that answer the caller.
        behind: the processes that these call.
    """

    name: str
    spec: dict[str, Any]
    pids: tuple[int, ...]
    behind: tuple[int, ...] = ()
