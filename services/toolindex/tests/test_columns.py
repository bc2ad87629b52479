"""Who sees which slot."""

from __future__ import annotations

from searchbus_contracts import Actor
from searchbus_toolindex.columns import Columns

from .conftest import entries, tool

COLUMNS = Columns.of(
    [
        *entries(tool("b", "x"), tool("a", "x", toolset="other")),
        None,
        *entries(tool("c", "x", required_roles=("A", "B"))),
    ]
)


def seen(roles: tuple[str, ...], kind="tool", toolsets=()) -> list[int]:
    visible = COLUMNS.visible(Actor(subject="a", roles=roles), kind, toolsets)
    return [slot for slot, flag in enumerate(visible) if flag]


def test_roles_kind_and_toolsets_decide():
    """An empty slot is never visible."""
    assert seen(()) == [0, 1]
    assert seen(("A",)) == [0, 1]
    assert seen(("A", "B")) == [0, 1, 3]
    assert seen(("*",), toolsets=("office",)) == [0, 3]
    assert seen(("*",), toolsets=("none",)) == []
    assert seen(("*",), kind="prompt") == []


def test_order_among_equal_scores_is_by_toolset_and_name():
    """Whatever the slots."""
    places = {slot: int(COLUMNS.place[slot]) for slot in (0, 1, 3)}
    assert sorted(places, key=places.__getitem__) == [0, 3, 1]
