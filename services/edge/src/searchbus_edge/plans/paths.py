"""JSONPath (RFC 9535) without what could cost much: names, indices, slices, wildcards.

    path = parse("$.found.results[*].url")
    path.value({"found": {"results": [{"url": "a"}]}}, Work())    # ["a"]

docs/guides/plans.md says what paths give. Filters (`?`) are the conditions of rows; descendants
(`..`) and unions are left out, since a few of them visit everything many times. The libraries of
RFC 9535 have no limit of the work of one path.

Rows of earlier results are joined, filtered, without repetitions, limited, and reduced to fields.
Only texts, numbers, true, false and null are compared. An object or a list equals nothing, and a
text is never less than a number.
"""

from __future__ import annotations

import json
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from searchbus_contracts import ErrorCode, Fault

MAX_CHARS = 500
MAX_NODES = 10_000
"""Values of one path, and rows of one step."""
MAX_WORK = 1_000_000
"""Values that the steps of one plan may look at, and its output again; about a second each."""
_NAME = r"[A-Za-z_\u0080-\U0010ffff][0-9A-Za-z_\u0080-\U0010ffff]*"
_INTEGER = r"(?:0|-?[1-9][0-9]{0,14})"
_SEGMENT = re.compile(
    rf"\.(?P<name>{_NAME})|\.(?P<all>\*)|\[\s*(?:(?P<every>\*)"
    rf"|(?P<start>{_INTEGER})?\s*(?P<slice>:)\s*(?P<end>{_INTEGER})?"
    rf"|(?P<index>{_INTEGER})"
    r"|\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>(?:[^'\\]|\\.)*)')\s*\]"
)
_QUOTES = re.compile(r"\\.|\"")


class Work:
    """Counts values that a plan looks at; above `most` `charge` raises Fault(invalid_argument).

    `hold` counts bytes of what a plan makes and keeps; it raises Fault where they are too many.
    """

    def __init__(
        self, most: int = MAX_WORK, hold: Callable[[int], None] = lambda size_bytes: None
    ) -> None:
        self._left = most
        self.hold = hold

    def charge(self, count: int) -> None:
        """Count so many values; those of which there are too many count nothing."""
        if count > self._left:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                "The plan looks at too many values. Limit the rows, or ask the tools for fewer.",
            )
        self._left -= count


class Path(Struct, frozen=True):
    """A parsed path of names, indices and slices; None selects all."""

    text: str
    root: Literal["$", "@"]
    selectors: tuple[str | int | slice | None, ...]

    @property
    def step(self) -> str | None:
        """The step whose result it starts from; None for a path of a row."""
        first = self.selectors[0] if self.root == "$" and self.selectors else None
        return first if isinstance(first, str) else None

    @property
    def is_single(self) -> bool:
        """Whether it can lead to one place only (a singular query of the RFC)."""
        return all(isinstance(selector, str | int) for selector in self.selectors)

    def nodes(self, root: Any, work: Work) -> list[Any]:
        """The values that it leads to; raises Fault where there are too many."""
        nodes = [root]
        for selector in self.selectors:
            found: list[Any] = []
            for node in nodes:
                count, inner = _children(node, selector)
                work.charge(1 + count)
                if len(found) + count > MAX_NODES:
                    raise Fault(
                        ErrorCode.INVALID_ARGUMENT,
                        f"{self.text} has more than {MAX_NODES} values. Ask the tool for fewer.",
                    )
                found += inner
            nodes = found
        return nodes

    def value(self, root: Any, work: Work) -> Any:
        """The value or the list of values; raises LookupError (nothing there), Fault (too many)."""
        nodes = self.nodes(root, work)
        if not self.is_single:
            return nodes
        if not nodes:
            raise LookupError(self.text)
        return nodes[0]


def parse(text: str, field: str) -> Path:
    """Read a path; raises Fault(invalid_argument) that names the plan's field."""
    if not 0 < len(text) <= MAX_CHARS:
        raise bad(field, f"has {len(text)} characters; 1 to {MAX_CHARS} are allowed")
    if text[0] not in "$@":
        raise bad(field, "must begin with $ (the results by step) or @ (the row)")
    at, selectors = 1, []
    while at < len(text):
        match = _SEGMENT.match(text, at)
        if match is None:
            raise bad(
                field,
                f"cannot be read at character {at}: use .name, ['name'], [0], [0:5], [*]; "
                "filters, unions and .. are not supported",
            )
        selectors.append(_selector(match, field))
        at = match.end()
    path = Path(text, "$" if text[0] == "$" else "@", tuple(selectors))
    if path.root == "$" and path.step is None:
        raise bad(field, "must name a step first: $.step")
    return path


def _selector(match: re.Match[str], field: str) -> str | int | slice | None:
    if match["name"] is not None:
        return match["name"]
    if match["index"] is not None:
        return int(match["index"])
    if match["slice"] is not None:
        ends = (match["start"], match["end"])
        return slice(*(None if end is None else int(end) for end in ends))
    quoted = match["double"]
    if match["single"] is not None:
        swapped = {"\\'": "'", '"': '\\"'}
        quoted = _QUOTES.sub(lambda found: swapped.get(found[0], found[0]), match["single"])
    if quoted is None:
        return None
    try:
        return str(json.loads(f'"{quoted}"'))
    except ValueError:
        raise bad(field, "has a name in quotes that is not a JSON string") from None


def _children(node: Any, selector: str | int | slice | None) -> tuple[int, Iterable[Any]]:
    """How many there are, and they, of which no copy is made: they may be too many."""
    if isinstance(node, dict):
        if selector is None:
            return len(node), node.values()
        return (1, [node[selector]]) if isinstance(selector, str) and selector in node else (0, ())
    if not isinstance(node, list) or isinstance(selector, str):
        return 0, ()
    if isinstance(selector, int):
        return (1, [node[selector]]) if -len(node) <= selector < len(node) else (0, ())
    if selector is None:
        return len(node), node
    places = range(len(node))[selector]
    return len(places), map(node.__getitem__, places)


def bad(field: str, problem: str) -> Fault:
    """The failure of a plan: which field, and what is wrong with it."""
    return Fault(ErrorCode.INVALID_ARGUMENT, f"{field}: {problem}.")


_CHARS_PER_VALUE = 16
"""A text counts as one value for so many of them."""
_POINTER_BYTES = 8
"""What a row takes in the list of a step."""
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
    """A step on rows. `join`: the other rows, the paths of both keys, the new field."""

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
            work.charge(1)
            work.hold(_POINTER_BYTES)
            kept = _reduced(row, self.fields, work) if self.fields else row
            if self.join is not None and (kept is row or any(v is row for v in kept.values())):
                work.hold(sys.getsizeof(row))  # without a join the row was there before
            chosen.append(kept)
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
        for other in by_key.get(_key(_at(on, row, work)), ()):
            work.charge(1 + len(row))  # each is copied
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
    work.charge(len(fields))
    found = {name: _at(path, row, work) for name, path in fields.items()}
    kept = {name: value for name, value in found.items() if value is not _MISSING}
    lists = (kept[name] for name, path in fields.items() if not path.is_single)  # made by the path
    work.hold(sys.getsizeof(kept) + sum(map(sys.getsizeof, lists)))
    return kept


def _at(path: Path, row: Any, work: Work) -> Any:
    try:
        found = path.value(row, work)
    except LookupError:
        return _MISSING
    if isinstance(found, str):  # many rows may have the same long text
        work.charge(len(found) // _CHARS_PER_VALUE)
    return found


def _key(value: Any) -> tuple[str, Any] | None:
    """What is equal for equal values (1 is 1.0, and not true); None for what equals nothing.
    Numbers are texts: nobody can choose many of one hash."""
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
