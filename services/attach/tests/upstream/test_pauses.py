"""How long a server that fails is left alone."""

from __future__ import annotations

import pytest

from searchbus_attach.upstream import pauses as module
from searchbus_attach.upstream.pauses import Pauses, about


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    monkeypatch.setattr(module._jitter, "uniform", lambda least, most: 1.0)


def test_a_pause_doubles_up_to_a_minute():
    """While no connection can be made; a lost one is replaced at once."""
    pauses = Pauses()
    found = [pauses.after(was_up=False, early=False) for _ in range(8)]
    assert found == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert pauses.after(was_up=True, early=False) == 0.0
    assert pauses.after(was_up=False, early=False) == 1.0


def test_connections_that_are_lost_early_have_a_pause_from_the_second_on():
    """A server that ends soon after each start would be started all the time."""
    pauses = Pauses()
    assert [pauses.after(was_up=True, early=True) for _ in range(4)] == [0.0, 1.0, 2.0, 4.0]
    assert pauses.after(was_up=True, early=False) == 0.0
    assert pauses.after(was_up=True, early=True) == 0.0


def test_times_are_less_or_more_by_a_fifth(monkeypatch):
    """So that many servers are not asked at one moment."""
    monkeypatch.undo()
    times = {about(100.0) for _ in range(50)}
    assert 80.0 <= min(times) <= max(times) <= 120.0
    assert len(times) > 1
