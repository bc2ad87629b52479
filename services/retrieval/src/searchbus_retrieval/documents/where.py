"""Checks metadata filters in the style of Chroma and turns them into conditions of the store.

Several fields or operators in one object must all hold. A document without a field matches $ne and
$nin only. A date without a time stands for its whole day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_vectors import (
    AllOf,
    AnyOf,
    DateRange,
    Equals,
    FieldType,
    Filter,
    IsIn,
    Not,
    NumberRange,
)

MAX_DEPTH = 8
MAX_CONDITIONS = 100
MAX_VALUES, MAX_ALL_VALUES = 200, 1_000
"""Values of one list, and of all lists: each date is a condition for the store."""
_COMPARISONS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin")
_COMBINATIONS = ("$and", "$or")
_ORDERED = ("integer", "float", "datetime")


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A filterable field: its path in the payload, and its type."""

    path: str
    kind: FieldType


def compile_where(where: Mapping[str, Any], fields: Mapping[str, FieldSpec]) -> Filter:
    """Translate a filter; raises Fault(invalid_argument), which names the field or operator and
    what is allowed."""
    return _Compiler(fields).combine(where, depth=1)


class _Compiler:
    def __init__(self, fields: Mapping[str, FieldSpec]) -> None:
        self._fields = fields
        self._conditions = self._values = 0

    def combine(self, node: Any, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise _fault(f"where is nested deeper than {MAX_DEPTH} levels.")
        if not isinstance(node, Mapping):
            raise _fault("where and each part of $and and $or must be an object.")
        if not node:  # they would be without number: only conditions are counted
            raise _fault("where and each part of $and and $or must have a condition.")
        parts: list[Filter] = []
        for key, value in node.items():
            if key in _COMBINATIONS:
                if not isinstance(value, list) or not value:
                    raise _fault(f"{key} must be a list of at least one condition.")
                inner = tuple(self.combine(part, depth + 1) for part in value)
                parts.append(AllOf(inner) if key == "$and" else AnyOf(inner))
            elif key.startswith("$"):
                raise _fault(
                    f"Unknown operator {_shown(key)} in where. Allowed here: $and, $or or a field."
                )
            else:
                parts.append(self._field(key, value))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _field(self, name: str, value: Any) -> Filter:
        spec = self._fields.get(name)
        if spec is None:
            raise _fault(
                f"Unknown field {_shown(name)} in where. Known: {', '.join(sorted(self._fields))}."
            )
        comparisons = value if isinstance(value, Mapping) else {"$eq": value}
        if not comparisons:
            raise _fault(f"{name}: the condition is empty. Give a value or an operator.")
        parts = []
        for operator, operand in comparisons.items():
            self._conditions += 1
            if self._conditions > MAX_CONDITIONS:
                raise _fault(f"where has more than {MAX_CONDITIONS} conditions.")
            if operator not in _COMPARISONS:
                raise _fault(
                    f"Unknown operator {_shown(operator)} for field {name}. "
                    f"Allowed: {', '.join(_COMPARISONS)}."
                )
            parts.append(self._compare(name, spec, operator, operand))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _compare(self, name: str, spec: FieldSpec, operator: str, operand: Any) -> Filter:
        if operator in ("$in", "$nin"):
            if not isinstance(operand, list) or not 1 <= len(operand) <= MAX_VALUES:
                raise _fault(f"{name}: {operator} needs a list of 1 to {MAX_VALUES} values.")
            self._values += len(operand)
            if self._values > MAX_ALL_VALUES:
                raise _fault(f"where has more than {MAX_ALL_VALUES} values in lists.")
            one_of = self._is_in(name, spec, operand)
            return one_of if operator == "$in" else Not(one_of)
        if operator in ("$eq", "$ne"):
            equal = self._equals(name, spec, operand)
            return equal if operator == "$eq" else Not(equal)
        if spec.kind not in _ORDERED:
            raise _fault(f"{name}: {operator} needs a number or a date; the field is {spec.kind}.")
        if spec.kind == "datetime":
            return _date_compare(spec.path, operator, *_moment(name, operand))
        return NumberRange(spec.path, **{operator[1:]: _number(name, spec, operand)})

    def _is_in(self, name: str, spec: FieldSpec, operands: list[Any]) -> Filter:
        if spec.kind == "keyword":
            return IsIn(spec.path, tuple(_text(name, value) for value in operands))
        if spec.kind == "integer":
            return IsIn(spec.path, tuple(int(_number(name, spec, value)) for value in operands))
        return AnyOf(tuple(self._equals(name, spec, value) for value in operands))

    def _equals(self, name: str, spec: FieldSpec, operand: Any) -> Filter:
        if spec.kind == "keyword":
            return Equals(spec.path, _text(name, operand))
        if spec.kind == "datetime":
            return _date_compare(spec.path, "$eq", *_moment(name, operand))
        if spec.kind == "bool":
            if not isinstance(operand, bool):
                raise _fault(f"{name}: needs true or false.")
            return Equals(spec.path, operand)
        number = _number(name, spec, operand)
        if spec.kind == "integer":
            return Equals(spec.path, int(number))
        return NumberRange(spec.path, gte=number, lte=number)


def _date_compare(path: str, operator: str, start: datetime, end: datetime | None) -> Filter:
    first = _iso(start)
    if operator in ("$gte", "$lt"):
        return DateRange(path, **{operator[1:]: first})
    if end is None:
        bounds = {"gte": first, "lte": first} if operator == "$eq" else {operator[1:]: first}
        return DateRange(path, **bounds)
    after = _iso(end)
    if operator == "$gt":
        return DateRange(path, gte=after)
    return DateRange(path, gte=first if operator == "$eq" else None, lt=after)


def _moment(name: str, operand: Any) -> tuple[datetime, datetime | None]:
    if isinstance(operand, str) and len(operand) <= 40:
        try:
            if len(operand) <= 10:  # no time, in any form of ISO 8601
                day = date.fromisoformat(operand)
                start = datetime(day.year, day.month, day.day, tzinfo=UTC)
                return start, (start + timedelta(days=1) if day < date.max else None)
            moment = datetime.fromisoformat(operand)
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC), None
        except (ValueError, OverflowError):
            pass
    raise _fault(f"{name}: needs an ISO date such as 2024-01-31.")


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _number(name: str, spec: FieldSpec, operand: Any) -> float:
    if isinstance(operand, bool) or not isinstance(operand, int | float):
        raise _fault(f"{name}: needs a number.")
    if not abs(operand) <= 2**62:  # NaN is in no range
        raise _fault(f"{name}: the number is out of range.")
    if spec.kind == "integer" and operand != int(operand):
        raise _fault(f"{name}: needs a whole number.")
    return operand


def _text(name: str, operand: Any) -> str:
    if not isinstance(operand, str) or len(operand) > 2000:
        raise _fault(f"{name}: needs a string of at most 2000 characters.")
    return operand


def _shown(text: Any) -> str:
    return repr(str(text)[:60])


def _fault(message: str) -> Fault:
    return Fault(ErrorCode.INVALID_ARGUMENT, message)
