"""The definition of a tool, by whose hash it is approved: what a model reads, what a call needs."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import Struct

from searchbus_contracts import ToolAnnotations, ToolDescriptor
from searchbus_contracts.codec import canonical


class Definition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a descriptor that count; all others say how the tool is served or found."""

    name: str
    title: str | None = None
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    required_roles: tuple[str, ...] = ()


def definition_of(tool: ToolDescriptor) -> Definition:
    """The definition of a tool."""
    return Definition(**{name: getattr(tool, name) for name in Definition.__struct_fields__})


def fingerprint(tool: ToolDescriptor) -> str:
    """SHA-256 over the canonical JSON of a tool's definition, as 64 hex digits."""
    return hashlib.sha256(canonical(definition_of(tool))).hexdigest()


def changes(old: ToolDescriptor, new: ToolDescriptor) -> list[str]:
    """What differs between two definitions, as clauses for a log line; roles by their names."""
    found = [
        f"its {field.replace('_', ' ')} changed"
        for field in Definition.__struct_fields__
        if field != "required_roles" and getattr(old, field) != getattr(new, field)
    ]
    before, after = set(old.required_roles), set(new.required_roles)
    found += [f"it no longer needs the role {role}" for role in sorted(before - after)]
    found += [f"it now needs the role {role}" for role in sorted(after - before)]
    return found
