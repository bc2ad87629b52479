"""Who may read which collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from searchbus_contracts import Actor

from .schemas import unknown_collection

__all__ = ["OPEN", "Access"]


class Access:
    """Roles that collections require.

    Args:
        required: collection → roles, all of which a reader must hold. `*` stands for every
            collection that is not named. What is not in it is open to every caller.
    """

    def __init__(self, required: Mapping[str, Sequence[str]] | None = None) -> None:
        self._required = {name: tuple(roles) for name, roles in (required or {}).items()}

    def may_read(self, actor: Actor, collection: str) -> bool:
        """Whether the actor may read the collection; one rule for search, list and read."""
        required = self._required.get(collection, self._required.get("*", ()))
        return actor.holds(required)

    def readable(self, actor: Actor, collections: Iterable[str]) -> tuple[str, ...]:
        """Those that the actor may read, in their order."""
        return tuple(name for name in collections if self.may_read(actor, name))

    def require(self, actor: Actor, collection: str) -> None:
        """Raise Fault(not_found), as for a collection that does not exist."""
        if not self.may_read(actor, collection):
            raise unknown_collection(collection)


OPEN = Access()
