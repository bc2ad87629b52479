"""A task: what is kept of it in the key-value store, and how clients see it.

Shapes and statuses are those of the extension `io.modelcontextprotocol/tasks` (SEP-2663, final
text of 2026-07-28).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

EXTENSION = "io.modelcontextprotocol/tasks"
METHODS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
POLL_INTERVAL_MS = 1000


class Failure(Struct, frozen=True, omit_defaults=True):
    """A JSON-RPC error."""

    code: int
    message: str
    data: Any = None


class Task(Struct, kw_only=True, omit_defaults=True):
    """One call that runs on after its request was answered. Times are milliseconds of the epoch.

    Args:
        id: names it to its caller; unguessable.
        endpoint: the toolset of the endpoint where it was called; None for `/mcp`.
        tool, arguments: as the client gave them.
        capabilities: that the client declared with the call.
        expires_ms: from then on it is unknown.
        deadline_ms: of the call that runs now.
        runner: the edge that runs it; empty where none does.
        seen_ms: when that edge last wrote.
        message: the last progress message of the tool.
        rounds: how often it asked for input; a part of each key, so that keys never repeat.
        requests: outstanding requests for input, by key.
        responses: what the client has given so far, by key.
        state: of the tool, for its next call with the responses.
        result: of tools/call, once it is completed.
        error: the JSON-RPC error, once it has failed.
    """

    id: str
    endpoint: str | None = None
    tool: str
    arguments: dict[str, Any] = {}
    capabilities: tuple[str, ...] = ()
    status: Status = "working"
    created_ms: int
    updated_ms: int
    expires_ms: int
    deadline_ms: int
    runner: str = ""
    seen_ms: int = 0
    message: str | None = None
    rounds: int = 0
    requests: dict[str, dict[str, Any]] = {}
    responses: dict[str, Any] = {}
    state: str | None = None
    result: dict[str, Any] | None = None
    error: Failure | None = None

    @property
    def over(self) -> bool:
        """Whether its status is final."""
        return self.status in ("completed", "failed", "cancelled")

    def created(self) -> dict[str, Any]:
        """As the result of the tools/call that became a task (CreateTaskResult)."""
        return {"resultType": "task", **self._fields()}

    def detailed(self) -> dict[str, Any]:
        """As the result of tasks/get (DetailedTask)."""
        found = {"resultType": "complete", **self._fields()}
        if self.status == "input_required":
            found["inputRequests"] = self.requests
        if self.status == "completed":
            found["result"] = self.result
        if self.status == "failed" and self.error is not None:
            error = {"code": self.error.code, "message": self.error.message}
            found["error"] = (
                error if self.error.data is None else {**error, "data": self.error.data}
            )
        return found

    def _fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": _iso(self.created_ms),
            "lastUpdatedAt": _iso(self.updated_ms),
            "ttlMs": self.expires_ms - self.created_ms,
            "pollIntervalMs": POLL_INTERVAL_MS,
        }
        if self.message is not None:
            found["statusMessage"] = self.message
        return found


def _iso(time_ms: int) -> str:
    text = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
