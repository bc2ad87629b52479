"""Conditions on payload fields, as a small tree that each engine translates.

AllOf((Equals("kind", "chunk"), DateRange("date", gte="2024-01-01", lt="2025-01-01")))
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Equals:
    """The field has this value. For floats and dates use the ranges."""

    field: str
    value: str | int | bool


@dataclass(frozen=True, slots=True)
class IsIn:
    """The field has one of these values, all strings or all integers."""

    field: str
    values: tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The field is a number within the bounds given."""

    field: str
    gt: float | None = None
    gte: float | None = None
    lt: float | None = None
    lte: float | None = None


@dataclass(frozen=True, slots=True)
class DateRange:
    """The field is a date or time within the bounds given, all ISO 8601."""

    field: str
    gt: str | None = None
    gte: str | None = None
    lt: str | None = None
    lte: str | None = None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part matches; without parts, every point matches."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part matches."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match; so a point without the field matches."""

    part: Filter


Filter = Equals | IsIn | NumberRange | DateRange | AllOf | AnyOf | Not
