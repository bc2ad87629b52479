"""What is in the index while it changes."""

from __future__ import annotations

from searchbus_contracts import Actor
from searchbus_toolindex import index as index_module

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
