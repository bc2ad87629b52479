"""What a class of callers sees."""

from __future__ import annotations

from searchbus_contracts import Actor

from .conftest import index_of, tool


def test_callers_who_see_the_same_share_a_scope():
    """Until the index changes."""
    index = index_of(tool("a", "mail"), tool("s", "secret", required_roles=("A",)))
    one = index.scope(Actor(subject="one"), "tool")
    assert one is index.scope(Actor(subject="two", roles=("OTHER",)), "tool")
    assert (one.number, one.mask.tolist()) == (1, [True, False])
    full = index.scope(Actor(subject="three", roles=("A",)), "tool")
    assert full.number == 2
    assert full.fingerprint != one.fingerprint
    index.replace("office", [], lambda entry: [])
    assert index.scope(Actor(subject="one"), "tool").number == 0
