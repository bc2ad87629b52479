"""Bytes that callers hold: counted once, and given back whatever happens."""

from __future__ import annotations

from searchbus_edge.holding import HeldBytes, Holder


def test_limits_hold_for_all_and_for_each():
    """What does not fit counts nothing; the end of a block gives back."""
    held = HeldBytes(10, 6)
    with (
        Holder(held, "alice") as first,
        Holder(held, "alice") as second,
        Holder(held, "bob") as bob,
    ):
        assert first.take(4)
        assert not second.take(3)
        assert second.take(2)
        assert not bob.take(5)
        assert bob.take(4)
        assert (held.used_bytes, bob.size_bytes) == (10, 4)
    assert (held.used_bytes, dict(held.used_by)) == (0, {})


def test_thread_that_goes_on_behind_the_end_takes_nothing():
    """Nobody would give it back; so the work of a plan that was cancelled ends."""
    held = HeldBytes(10, 10)
    with Holder(held, "alice") as holder:
        assert holder.take(1)
    assert not holder.take(1)
    assert held.used_bytes == 0
