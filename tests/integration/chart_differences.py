"""What the chart's objects have otherwise than the overlay's, place by place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .documents import Document, name_of

_HASH = re.compile(r"-[a-z0-9]{10}$")
"""At the end of the name of a ConfigMap that kustomize made."""
_NOTHING = "nothing"


def differences(
    overlay: list[Document], chart: list[Document]
) -> Iterator[tuple[str, str, Any, Any]]:
    """(object, place, value of the overlay, value of the chart), without what is in a list in another order."""
    made = {name_of(d) for d in overlay if d["kind"] == "ConfigMap"}
    names = {name: _HASH.sub("", name) for name in made}
    left = {_title(d): d for d in (_renamed(d, names) for d in overlay)}
    right = {_title(d): d for d in chart}
    for title in sorted({*left, *right}):
        for place, one, other in _compared(left.get(title, {}), right.get(title, {}), ""):
            yield title, place, one, other


def _title(document: Document) -> str:
    return f"{document['kind']} {name_of(document)}"


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


def _compared(one: Any, other: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _compared(one.get(key, _NOTHING), other.get(key, _NOTHING), f"{place}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and _named(one) and _named(other):
        yield from _compared(_named(one), _named(other), place)
    elif one != other:
        yield place, one, other


def _named(values: list[Any]) -> dict[str, Any] | None:
    """A list of named parts as a table: containers, ports and volumes have no order."""
    if not all(isinstance(each, dict) and "name" in each for each in values):
        return None
    return {each["name"]: each for each in values}
