"""The one access rule of the edge."""

from __future__ import annotations

from typing import Protocol

from searchbus_contracts import Actor

__all__ = ["missing_role", "visible"]


class _HasRoles(Protocol):
    @property
    def required_roles(self) -> tuple[str, ...]: ...


def visible(actor: Actor, descriptor: _HasRoles) -> bool:
    """Whether the actor has every required role; used by list, search, call, read and get."""
    return not descriptor.required_roles or actor.holds(descriptor.required_roles)


def missing_role(actor: Actor, descriptor: _HasRoles) -> str | None:
    """The first required role that the actor lacks, as the tool declares it."""
    return actor.missing(descriptor.required_roles)
