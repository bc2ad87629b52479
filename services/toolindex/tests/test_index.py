"""What is in the index while it changes."""

from __future__ import annotations

import numpy as np

from searchbus_contracts import Actor
from searchbus_toolindex import index as index_module
from searchbus_toolindex.index import Columns

from .conftest import EVERY_ROLE, entries, find, index_of, rows, tool, vectors_of


def test_a_change_replaces_only_what_changed():
    """Vectors of unchanged entries are not asked for again."""
    index = index_of(tool("a", "send mail"), tool("b", "weather"))
    asked = []

    def vectors(entry):
        asked.append(entry.name)
        return vectors_of(entry)

    index.replace("office", entries(tool("a", "send mail"), tool("b", "stock price")), vectors)
    assert asked == ["b"]
    assert [f.name for f in find(index, "stock price", actor=EVERY_ROLE).found] == ["b"]
    assert "weather" not in index.vocabulary(index.scope(EVERY_ROLE, "tool"))
    assert len(index) == 2


def test_large_change_is_made_in_slices_between_which_searches_run(monkeypatch):
    """Each entry is there in its old or in its new form, and at the end as in an index made anew."""
    monkeypatch.setattr(index_module, "_SLICE", 2)
    index = index_of(*(tool(f"t{number}", "send mail") for number in range(7)))
    wanted = [tool(f"t{number}", "draw a chart") for number in range(3, 11)]
    versions, totals = {index.version}, []
    for _ in index.replacing("office", index.difference("office", entries(*wanted)), vectors_of):
        versions.add(index.version)
        found = [find(index, query, actor=EVERY_ROLE, limit=50) for query in ("mail", "chart")]
        totals.append([reply.total for reply in found])
        assert sum(totals[-1]) == len(index)
    assert len(totals) >= 4
    assert len(versions) == len(totals) + 1
    made_anew = index_of(*wanted)
    assert rows(find(index, "chart", actor=EVERY_ROLE, limit=50)) == rows(
        find(made_anew, "chart", actor=EVERY_ROLE, limit=50)
    )


def test_spelling_of_a_hidden_entry_is_not_in_the_vocabulary():
    """Where a visible one has the same stem; after a removal neither."""
    secret = tool("s", "forecasting", required_roles=("A",))
    index = index_of(tool("a", "forecast"), secret)
    words = index.vocabulary(index.scope(Actor(subject="r"), "tool"))
    assert "forecast" in words
    assert "forecasting" not in words
    index.replace("office", entries(tool("a", "forecast")), vectors_of)
    assert "forecasting" not in index.vocabulary(index.scope(EVERY_ROLE, "tool"))


COLUMNS = Columns()
for slot, entry in enumerate(
    entries(
        tool("b", "x"),
        tool("a", "x", toolset="other"),
        tool("gone", "x"),
        tool("c", "x", required_roles=("A", "B")),
        tool("d", "x", toolset="choice", aside=True),
    )
):
    COLUMNS.put(slot, entry)
COLUMNS.clear(2, ("tool", "office", "gone"))


def seen(roles: tuple[str, ...], kind="tool", toolsets=()) -> list[int]:
    key = COLUMNS.scope_key(Actor(subject="a", roles=roles), kind, toolsets)
    visible = COLUMNS.visible(key)
    return [slot for slot, flag in enumerate(visible) if flag]


def test_roles_kind_and_toolsets_decide():
    """An empty slot is never visible."""
    assert seen(()) == [0, 1]
    assert seen(("A",)) == [0, 1]
    assert seen(("A", "B")) == [0, 1, 3]
    assert seen(("*",), toolsets=("office",)) == [0, 3]
    assert seen(("*",), toolsets=("none",)) == []
    assert seen((), toolsets=("choice",)) == [4]  # aside: only where its toolset is named
    assert seen(("*",), kind="prompt") == []


def test_order_among_equal_scores_is_by_toolset_and_name():
    """Whatever the slots."""
    places = {slot: int(COLUMNS.place[slot]) for slot in (0, 1, 3)}
    assert sorted(places, key=places.__getitem__) == [0, 3, 1]


def test_callers_who_see_the_same_share_a_key():
    """Roles that no entry requires make no difference."""
    keys = [
        COLUMNS.scope_key(Actor(subject=subject, roles=roles), "tool", ())
        for subject, roles in (("a", ("A",)), ("b", ("OTHER",)), ("c", ("A", "B")))
    ]
    assert keys[0] == keys[1] != keys[2]


def test_a_slot_that_is_filled_again_has_its_new_place():
    """With the same key or with another."""
    columns = Columns()
    first, second, third = entries(tool("a", "x"), tool("b", "x"), tool("c", "x"))
    columns.put(0, first)
    columns.put(1, third)
    assert columns.place.tolist() == [0, 1]
    columns.clear(0, first.key)
    columns.put(0, first)
    assert columns.place.tolist() == [0, 1]
    columns.clear(1, third.key)
    columns.clear(0, first.key)
    columns.put(1, first)
    columns.put(0, second)
    assert columns.place.tolist() == [1, 0]


def test_fingerprint_does_not_depend_on_slots():
    """And changes with an entry."""
    some = entries(tool("a", "x"), tool("b", "x"), tool("c", "y"))

    def fingerprint(*order: int) -> str:
        columns = Columns()
        for slot, number in enumerate(order):
            columns.put(slot, some[number])
        return columns.fingerprint(np.ones(len(order), dtype=bool))

    assert fingerprint(0, 1, 2) == fingerprint(2, 0, 1)
    assert len({fingerprint(0, 1), fingerprint(0, 2), fingerprint(0), fingerprint(0, 1, 2)}) == 4


def test_sizes_are_counted_by_kind():
    """Free slots do not count."""
    assert COLUMNS.sizes() == {"tool": 4}


def test_entries_of_one_toolset_share_a_number():
    """Which another toolset does not have."""
    first, other, third = COLUMNS.toolsets(np.array([0, 1, 3])).tolist()
    assert first == third != other


def test_callers_who_see_the_same_share_a_scope():
    """Until the index changes."""
    index = index_of(tool("a", "mail"), tool("s", "secret", required_roles=("A",)))
    one = index.scope(Actor(subject="one"), "tool")
    assert one is index.scope(Actor(subject="two", roles=("OTHER",)), "tool")
    assert (one.lengths.number, one.lengths.visible.tolist()) == (1, [True, False])
    full = index.scope(Actor(subject="three", roles=("A",)), "tool")
    assert full.lengths.number == 2
    assert full.fingerprint != one.fingerprint
    index.replace("office", [], lambda entry: [])
    assert index.scope(Actor(subject="one"), "tool").lengths.number == 0
