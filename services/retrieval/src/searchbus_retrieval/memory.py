"""Memory for agents: notes of a caller or of a team (toolset `memory`), found by meaning and age.

All notes are in one collection, each a document of one passage with its owner. Every search, page
and deletion is limited to one owner; `Access` keeps the collection out of what others search and
list. The same note of the same owner has the same id: to remember it again only renews its time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from searchbus_bus import Call, Toolset, tool
from searchbus_contracts import ErrorCode, Fault, ToolAnnotations
from searchbus_contracts.headers import bare_role
from searchbus_contracts.ingest import Chunk, NewDocument
from searchbus_contracts.retrieval import FieldType, SearchHit
from searchbus_contracts.tools import READ_ONLY
from searchbus_vectors import AllOf, Equals, Filter, IsIn

from .access import MEMORY
from .documents.where import FieldSpec, compile_where
from .library import Library

MAX_NOTE_CHARS = 2000
"""About what the embedding model reads of one passage."""
MAX_NOTES = 1000
"""The most notes of one owner."""
HALF_LIFE_DAYS = 30.0
_AGE_SHARE = 0.3
"""What share of its score a note loses with its age."""
_CANDIDATES = 50
_FIELDS: dict[str, FieldType] = {"owner": "keyword", "at": "datetime", "source": "keyword"}
_WRITES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_FORGETS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
_Team = Annotated[
    Annotated[str, Meta(min_length=1, max_length=128)] | None,
    Meta(description="A role of yours: the notes that all who have it share. Without it, your own"),
]
_Id = Annotated[str, Meta(min_length=1, max_length=64)]


class Note(Struct, frozen=True, omit_defaults=True):
    """One note."""

    id: str
    text: str
    at: Annotated[str, Meta(description="When it was remembered last (ISO 8601, UTC)")]
    source: Annotated[str | None, Meta(description="Where it is from")] = None
    score: Annotated[
        float | None, Meta(description="How well it answers, with its age, 0 to 1")
    ] = None
    relevance: Annotated[float | None, Meta(description="Probability that it answers")] = None


class Remember(Struct, forbid_unknown_fields=True):
    """Arguments of remember."""

    text: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_NOTE_CHARS, description="One fact, whole in itself"),
    ]
    source: Annotated[
        Annotated[str, Meta(min_length=1, max_length=500)] | None,
        Meta(description="Where it is from: a URL, a file, a person"),
    ] = None
    team: _Team = None


class Recall(Struct, forbid_unknown_fields=True):
    """Arguments of recall."""

    query: Annotated[str, Meta(min_length=1, max_length=1000, description="What to look for")]
    limit: Annotated[int, Meta(ge=1, le=20, description="The most notes")] = 5
    since: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="Only notes from this date on (ISO 8601)"),
    ] = None
    team: _Team = None


class ListNotes(Struct, forbid_unknown_fields=True):
    """Arguments of list_notes."""

    limit: Annotated[int, Meta(ge=1, le=50, description="The most notes of a page")] = 50
    cursor: Annotated[
        Annotated[str, Meta(max_length=64)] | None,
        Meta(description="next_cursor of the page before"),
    ] = None
    team: _Team = None


class Forget(Struct, forbid_unknown_fields=True):
    """Arguments of forget."""

    ids: Annotated[list[_Id], Meta(max_length=100, description="The notes to delete")] = []
    everything: Annotated[bool, Meta(description="Delete all notes")] = False
    team: _Team = None


class Remembered(Struct, frozen=True):
    """The note as it is kept."""

    id: str
    at: str
    is_new: Annotated[bool, Meta(description="False: it was known, and its time is renewed")]


class Recalled(Struct, frozen=True):
    """Notes, best first."""

    notes: tuple[Note, ...]


class NotePage(Struct, frozen=True, omit_defaults=True):
    """A page of notes, in no order."""

    notes: tuple[Note, ...]
    total: Annotated[int, Meta(description="All notes of this memory")]
    next_cursor: str | None = None


class Forgotten(Struct, frozen=True):
    """How many notes were deleted."""

    deleted: int


class MemoryTools(Toolset, name="memory"):
    """Notes that outlive a conversation."""

    def __init__(self, library: Library) -> None:
        self._library = library

    @tool(
        title="Remember a note",
        annotations=_WRITES,
        timeout_ms=15_000,
        examples=("keep in mind that the user prefers short answers", "save this fact for later"),
        keywords=("memory", "note", "store", "save"),
    )
    async def remember(self, call: Call, arguments: Remember) -> Remembered:
        """Keep a note for later conversations. A note that is known only gets a new time."""
        owner, text = _owner(call, arguments.team), arguments.text.strip()
        if not text:
            raise Fault(ErrorCode.INVALID_ARGUMENT, "text is empty. Send the fact to remember.")
        key = hashlib.sha256(f"{owner}\0{text}".encode("utf-8", "replace")).hexdigest()[:32]
        is_known = bool(await self._count(AllOf((_of(owner), Equals("document_id", key)))))
        if not is_known and await self._count(_of(owner)) >= MAX_NOTES:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"This memory has {MAX_NOTES} notes, which is the limit. Delete some by forget.",
                retryable=False,
            )
        at = datetime.now(UTC).isoformat(timespec="seconds")
        note = NewDocument(
            document_id=key,
            title="Note",
            text=text,
            chunks=(Chunk(start=0, end=len(text)),),
            metadata={"owner": owner, "at": at, "source": arguments.source},
        )
        result = await self._library.store(MEMORY, note, _FIELDS)
        if result.outcome == "refused":
            raise Fault(ErrorCode.INVALID_ARGUMENT, f"text: {result.reason}")
        return Remembered(key, at, not is_known)

    @tool(
        title="Recall notes",
        annotations=READ_ONLY,
        untrusted=True,
        timeout_ms=15_000,
        examples=("what do I know about the user's preferences", "what was decided before"),
        keywords=("memory", "notes", "earlier", "remembered"),
    )
    async def recall(self, call: Call, arguments: Recall) -> Recalled:
        """Find notes of earlier conversations by meaning; newer ones come first among equals."""
        where: dict[str, Any] = {"owner": _owner(call, arguments.team)}
        if arguments.since is not None:
            since = {"since": {"$gte": arguments.since}}
            # A wrong date is refused also where nobody has a note yet.
            compile_where(since, {"since": FieldSpec("m.at", "datetime")})
            where = {"$and": [where, since]}
        hits: Sequence[SearchHit] = ()
        try:
            answer = await self._library.searcher.answer(
                MEMORY, arguments.query, limit=_CANDIDATES, where=where, aliases={"since": "at"}
            )
            hits = answer.hits
        except Fault as fault:
            if fault.code != ErrorCode.NOT_FOUND:  # nobody has a note yet
                raise
        now = datetime.now(UTC)
        notes = sorted((_recalled(hit, now) for hit in hits), key=lambda n: -(n.score or 0.0))
        return Recalled(tuple(notes[: arguments.limit]))

    @tool(
        title="List notes",
        annotations=READ_ONLY,
        untrusted=True,
        timeout_ms=15_000,
        examples=("export everything that is remembered", "how many notes are there"),
        keywords=("memory", "notes", "export", "count"),
    )
    async def list_notes(self, call: Call, arguments: ListNotes) -> NotePage:
        """All notes, page by page, and how many there are: an export of the memory."""
        where = _of(_owner(call, arguments.team))
        total = await self._count(where)
        if not total:
            return NotePage((), 0)
        page, following = await self._library.list_documents(
            MEMORY, limit=arguments.limit, start_id=arguments.cursor, where=where
        )
        texts = await asyncio.gather(*(self._text(summary.document_id) for summary in page))
        notes = (
            Note(summary.document_id, text, *_about(summary.metadata))
            for summary, text in zip(page, texts, strict=True)
            if text is not None
        )
        return NotePage(tuple(notes), total, following)

    @tool(
        title="Forget notes",
        annotations=_FORGETS,
        timeout_ms=30_000,
        examples=("delete this note", "forget everything about me"),
        keywords=("memory", "notes", "delete", "erase"),
    )
    async def forget(self, call: Call, arguments: Forget) -> Forgotten:
        """Delete notes by their ids, or all. Ids that are not of this memory are ignored."""
        if bool(arguments.ids) == arguments.everything:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT, "ids: give the ids of notes, or everything: true."
            )
        where = _of(_owner(call, arguments.team))
        if not arguments.everything:
            where = AllOf((where, IsIn("document_id", tuple(arguments.ids))))
        deleted = 0
        while ids := await self._ids(where):
            deleted += await self._library.delete(MEMORY, ids)
        return Forgotten(deleted)

    async def _count(self, where: Filter) -> int:
        return await self._library.count_documents(MEMORY, where)

    async def _ids(self, where: Filter) -> tuple[str, ...]:
        """The ids of a hundred notes; none where there is no note at all."""
        if not await self._count(where):
            return ()
        page, _ = await self._library.list_documents(MEMORY, limit=100, where=where)
        return tuple(summary.document_id for summary in page)

    async def _text(self, note_id: str) -> str | None:
        """None where it was forgotten meanwhile."""
        try:
            return (await self._library.get_from([MEMORY], note_id)).text
        except Fault as fault:
            if fault.code != ErrorCode.NOT_FOUND:
                raise
            return None


def _owner(call: Call, team: str | None) -> str:
    """Whose notes: the caller's, or those of a team that it belongs to."""
    if team is None:
        return f"caller:{call.actor.subject}"
    if not call.actor.holds((team,)):
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"team: you do not have the role {team!r}. Omit it for your own notes.",
        )
    return f"team:{bare_role(team)}"


def _of(owner: str) -> Filter:
    return Equals("m.owner", owner)


def _about(metadata: dict[str, Any]) -> tuple[str, str | None]:
    return str(metadata["at"]), metadata.get("source")


def _recalled(hit: SearchHit, now: datetime) -> Note:
    at, source = _about(hit.metadata)
    age_days = max(0.0, (now - datetime.fromisoformat(at)).total_seconds() / 86_400)
    score = hit.score * (1 - _AGE_SHARE + _AGE_SHARE * 0.5 ** (age_days / HALF_LIFE_DAYS))
    return Note(hit.document_id, hit.text, at, source, round(min(1.0, score), 4), hit.relevance)
