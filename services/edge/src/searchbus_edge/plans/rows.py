"""Rows of earlier results: joined, filtered, without repetitions, limited, reduced to fields.

Only texts, numbers, true, false and null are compared. An object or a list equals nothing, and a
text is never less than a number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from searchbus_contracts import ErrorCode, Fault

from .paths import MAX_NODES, Path, Work

_CHARS_PER_VALUE = 16
"""A text counts as one value for so many of them."""
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_MISSING = object()


class Test(Struct, frozen=True):
    """A condition whose value is known."""

    path: Path
    op: str
    value: Any


class Selection(Struct, frozen=True):
    """What a step does with its rows. `join`: the other rows, the paths of both keys, the new
    field."""

    join: tuple[list[Any], Path, Path, str] | None = None
    where: tuple[Test, ...] = ()
    unique: Path | None = None
    limit: int | None = None
    fields: Mapping[str, Path] = {}

    def apply(self, rows: Iterable[Any], work: Work) -> list[Any]:
        """The selected rows; raises Fault(invalid_argument)."""
        found: Iterator[Any] = iter(rows)
        if self.join is not None:
            found = _joined(found, *self.join, work)
        for test in self.where:
            found = _fulfilling(found, test, work)
        if self.unique is not None:
            found = _first_of_each(found, self.unique, work)
        chosen: list[Any] = []
        for row in found:
            if self.limit is not None and len(chosen) >= self.limit:
                break
            if len(chosen) >= MAX_NODES:
                raise Fault(
                    ErrorCode.INVALID_ARGUMENT,
                    f"There are more than {MAX_NODES} rows. Give the step a limit.",
                )
            chosen.append(_reduced(row, self.fields, work) if self.fields else row)
        return chosen


def _joined(
    rows: Iterator[Any], others: list[Any], on: Path, equals: Path, name: str, work: Work
) -> Iterator[Any]:
    by_key: dict[Any, list[Any]] = {}
    for other in others:
        key = _key(_at(equals, other, work))
        if key is not None:
            by_key.setdefault(key, []).append(other)
    for row in rows:
        if not isinstance(row, dict):
            raise Fault(ErrorCode.INVALID_ARGUMENT, "join: rows must be objects. Give them fields.")
        work.charge(len(row))
        for other in by_key.get(_key(_at(on, row, work)), ()):
            work.charge(1)
            yield {**row, name: other}


def _fulfilling(rows: Iterator[Any], test: Test, work: Work) -> Iterator[Any]:
    check = _check(test, work)
    return (row for row in rows if check(_at(test.path, row, work)))


def _check(test: Test, work: Work) -> Callable[[Any], bool]:
    """Whether a value of a row fulfils the condition."""
    if test.op == "exists":
        wanted = test.value is not False
        return lambda found: (found is not _MISSING) is wanted
    if test.op in _ORDERS:
        compare = _ORDERS[test.op]
        kind = _order_of(test.value)
        return lambda found: (
            kind is not None and _order_of(found) is kind and compare(found, test.value)
        )
    if test.op == "contains":
        return lambda found: _contains(found, test.value, work)
    given = test.value if test.op == "in" and isinstance(test.value, list) else [test.value]
    work.charge(len(given))
    keys = {key for value in given if (key := _key(value)) is not None}
    if test.op == "ne":
        return lambda found: _key(found) not in keys
    return lambda found: _key(found) in keys


def _contains(found: Any, wanted: Any, work: Work) -> bool:
    if isinstance(found, str):
        return isinstance(wanted, str) and wanted in found
    if isinstance(found, list):
        work.charge(len(found))
        key = _key(wanted)
        return key is not None and any(_key(value) == key for value in found)
    return False


def _first_of_each(rows: Iterator[Any], path: Path, work: Work) -> Iterator[Any]:
    seen: set[Any] = set()
    for row in rows:
        key = _key(_at(path, row, work))
        if key is None or key not in seen:
            seen.add(key)
            yield row


def _reduced(row: Any, fields: Mapping[str, Path], work: Work) -> dict[str, Any]:
    """The row with these fields only; one without a value is absent."""
    found = {name: _at(path, row, work) for name, path in fields.items()}
    return {name: value for name, value in found.items() if value is not _MISSING}


def _at(path: Path, row: Any, work: Work) -> Any:
    try:
        found = path.value(row, work)
    except LookupError:
        return _MISSING
    if isinstance(found, str):  # many rows may have the same long text
        work.charge(len(found) // _CHARS_PER_VALUE)
    return found


def _key(value: Any) -> tuple[str, Any] | None:
    """What is equal for equal values; None for what equals nothing. 1 is 1.0, and not true.

    Numbers are written as texts: nobody can choose many of one hash.
    """
    if isinstance(value, bool) or value is None:
        return "constant", value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | float):
        return "number", hex(value) if isinstance(value, int) else repr(value)
    return ("text", value) if isinstance(value, str) else None


def _order_of(value: Any) -> type | None:
    if isinstance(value, str):
        return str
    return float if isinstance(value, int | float) and not isinstance(value, bool) else None
