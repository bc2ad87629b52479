"""Tasks (`io.modelcontextprotocol/tasks`, SEP-2663, final text of 2026-07-28): what they are, and
in the key-value store that all edges share, whose they are, and how many.

The key of a task is a keyed hash of its caller and its id. So another caller's id leads to no
entry, as an id that nobody issued, and who reads the keys of the bucket learns neither.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal, Self

import msgspec
from msgspec import Struct

from searchbus_bus import NEEDED_TIMEOUT_S, Bus, KeyValue
from searchbus_bus.store.keyvalue import write_over
from searchbus_contracts import ErrorCode, Fault

from ..auth.signing import StateKey, StateKeys

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
        kept_bytes: what its caller's share has for it; 0: it is to be counted again.
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
    kept_bytes: int = 0
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


log = logging.getLogger("searchbus.edge")
_BUCKET = "edge_tasks"
_BUCKET_TTL_S = 1800.0
"""A task is written again at least every few seconds, and for the last time when it ends."""
_BUCKET_BYTES = 64 * 2**20
"""A full bucket drops what was written longest ago: 32 callers with all of their shares fill it."""
MAX_TASK_BYTES = 384 * 1024
"""The size of one task with its arguments and its result; a value has at most 512 KiB."""
_MARGIN_BYTES = 8 * 1024
"""For messages of progress, and for the error in place of a result."""
_LEAST_KEPT_BYTES = 64 * 1024
"""Counted for each task at least: most results fit, and need no further write to be counted."""
MAX_PER_CALLER = 32
_CALLER_BYTES = MAX_PER_CALLER * _LEAST_KEPT_BYTES
"""All tasks of one caller together: a few callers with large results do not fill the bucket."""
_SHARES = "\0shares"
"""In place of a task's id, in the key of what a caller's tasks hold."""
MAX_ID_CHARS = 128
_ATTEMPTS = 5


class TaskStore:
    """The tasks of all callers, in entries that live for `_BUCKET_TTL_S` after they were written.
    Each method may raise Fault(unavailable)."""

    def __init__(
        self, bucket: KeyValue, key: StateKey, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._bucket = bucket
        self._keys = StateKeys(key, "tasks")
        self._clock = clock

    @classmethod
    async def over(cls, bus: Bus, key: StateKey, *, clock: Callable[[], float] = time.time) -> Self:
        """In the bucket that all edges of this bus share."""
        bucket = await bus.key_value(
            _BUCKET, ttl_s=_BUCKET_TTL_S, max_bytes=_BUCKET_BYTES, timeout_s=NEEDED_TIMEOUT_S
        )
        return cls(bucket, key, clock=clock)

    @property
    def now_ms(self) -> int:
        """Milliseconds of the epoch."""
        return int(self._clock() * 1000)

    async def create(self, caller: str, task: Task) -> int | None:
        """Keep a new task; its revision. None: it is too large, or too much for its caller."""
        size_bytes = len(msgspec.json.encode(task))
        if size_bytes > MAX_TASK_BYTES - _MARGIN_BYTES:
            return None
        if not await self._count(caller, task, size_bytes):
            return None
        name = self._key(self._keys.issuing(), caller, task.id)
        return await self._bucket.create(name, msgspec.json.encode(task))

    async def get(self, caller: str, task_id: str) -> tuple[Task, int] | None:
        """A task of this caller and its revision; None where there is none, or no more."""
        if not 0 < len(task_id) <= MAX_ID_CHARS:
            return None
        for key in self._keys.accepted():
            entry = await self._bucket.get(self._key(key, caller, task_id))
            if entry is None:
                continue
            try:
                task = msgspec.json.decode(entry.value, type=Task)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                log.error("a task cannot be read and is treated as unknown: %s", error)
                return None
            return (task, entry.revision) if task.expires_ms > self.now_ms else None
        return None

    async def update(self, caller: str, task: Task, revision: int) -> int | None:
        """Write a task; its new revision, or None where another edge wrote before. Raises
        ValueError above `MAX_TASK_BYTES`, and where it is too much for its caller."""
        value = msgspec.json.encode(task)
        if len(value) > MAX_TASK_BYTES:
            raise ValueError(f"it has {len(value) // 1024} KiB of {MAX_TASK_BYTES // 1024}")
        if len(value) > task.kept_bytes:
            if not await self._count(caller, task, len(value)):
                raise ValueError(f"with it your tasks have over {_CALLER_BYTES // 1024} KiB")
            value = msgspec.json.encode(task)
        for key in self._keys.accepted():
            name = self._key(key, caller, task.id)
            written = await self._bucket.update(name, value, revision)
            if written is not None:
                return written
        return None

    async def _count(self, caller: str, task: Task, size_bytes: int) -> bool:
        """Count a task of this size in its caller's share; False where that is too small. Raises
        Fault(unavailable) where others write all the time."""
        kept_bytes = max(_LEAST_KEPT_BYTES, size_bytes + _MARGIN_BYTES)
        name = self._key(self._keys.issuing(), caller, _SHARES)
        for _ in range(_ATTEMPTS):
            entry = await self._bucket.get(name)
            known = _shares(entry.value) if entry else {}
            shares = {id: share for id, share in known.items() if share[0] > self.now_ms}
            shares[task.id] = task.expires_ms, kept_bytes
            if sum(bytes for _, bytes in shares.values()) > _CALLER_BYTES:
                return False
            # Before their places are given away: the bucket keeps them for longer.
            for expired in known.keys() - shares.keys():
                await self._bucket.delete(self._key(self._keys.issuing(), caller, expired))
            value = msgspec.json.encode(shares)
            if await write_over(self._bucket, name, value, entry) is not None:
                task.kept_bytes = kept_bytes
                return True
        raise Fault(ErrorCode.UNAVAILABLE, "This caller's tasks change too often. Try again.")

    @staticmethod
    def _key(key: bytes, caller: str, task_id: str) -> str:
        # No caller has a zero byte, so that the two parts do not run together.
        text = f"{caller}\0{task_id}".encode("utf-8", "replace")
        return hmac.new(key, text, hashlib.sha256).hexdigest()[:40]


def _shares(value: bytes) -> dict[str, tuple[int, int]]:
    """A caller's tasks by id: when each expires, and its bytes."""
    try:
        return msgspec.json.decode(value, type=dict[str, tuple[int, int]])
    except msgspec.MsgspecError as error:
        log.error("the sizes of a caller's tasks cannot be read and count nothing: %s", error)
        return {}
