"""Decides who may read which collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.headers import OPERATOR_ROLE

from .documents.collections import unknown_collection

MEMORY = "searchbus_memory"
"""The notes of all callers (memory.py). Operators read it by its name, for a backup; it is in
nobody's searches and lists of documents."""


class Access:
    """Roles that collections require.

    Args:
        required: collection → roles, all of which a reader must hold. `*` means every collection
            that is not named. Without it, a collection that is not named is open to everyone.
    """

    def __init__(self, required: Mapping[str, Sequence[str]] | None = None) -> None:
        self._required = {name: tuple(roles) for name, roles in (required or {}).items()}
        self._required[MEMORY] = (OPERATOR_ROLE,)

    def may_read(self, actor: Actor, collection: str) -> bool:
        """Whether the actor may read the collection; search, list and read all use this rule."""
        required = self._required.get(collection, self._required.get("*", ()))
        return actor.holds(required)

    def readable(self, actor: Actor, collections: Iterable[str]) -> tuple[str, ...]:
        """The collections that the actor may read, in the given order."""
        return tuple(name for name in collections if name != MEMORY and self.may_read(actor, name))

    def require(self, actor: Actor, collection: str) -> None:
        """Raise Fault(not_found), as for a collection that does not exist."""
        if not self.may_read(actor, collection):
            raise unknown_collection(collection)

    def require_writable(self, actor: Actor, collection: str) -> None:
        """Raise Fault(not_found) as `require`, invalid_argument for the notes of all callers."""
        self.require(actor, collection)
        if collection == MEMORY:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"collection: {MEMORY} has the notes of callers. Use another name.",
            )


OPEN = Access()
