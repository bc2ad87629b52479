"""The one access rule of the edge."""

from __future__ import annotations

from typing import Protocol

from searchbus_contracts import Actor
from searchbus_contracts.headers import bare_role

__all__ = ["missing_role", "visible"]


class _HasRoles(Protocol):
    @property
    def required_roles(self) -> tuple[str, ...]: ...


def visible(actor: Actor, descriptor: _HasRoles) -> bool:
    """Whether the actor has every required role; used by list, search, call, read and get."""
    return actor.holds(descriptor.required_roles)


def missing_role(actor: Actor, descriptor: _HasRoles) -> str | None:
    """The first required role that the actor lacks, without its prefix `ROLE_`."""
    lacking = (role for role in descriptor.required_roles if not actor.holds((role,)))
    return next((bare_role(role) for role in lacking), None)
