"""Instances come and go, and a service is remembered according to how it went."""

from __future__ import annotations

import pytest

from searchbus_bus.catalog.services import Absence, Instance, Presence
from searchbus_bus.client.discovery import started_ms


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def presence(clock) -> Presence:
    return Presence(expected=("wanted",), grace_s=30, lost_grace_s=3600, clock_s=clock)


ONE = Instance("c1", 1)


def test_newest_instance_is_the_one_that_started_last(presence):
    """Of two that started in one millisecond, always the same."""
    assert presence.newest("a") is None
    presence.put("a", "1", Instance("old", 5))
    presence.put("a", "2", Instance("new", 6))
    presence.put("a", "0", Instance("same", 6))
    assert presence.newest("a") == Instance("new", 6)
    assert set(presence.everyone()) == {("a", "0"), ("a", "1"), ("a", "2")}


@pytest.mark.parametrize(("announced", "grace_s"), [(True, 30), (False, 3600)])
def test_how_the_last_instance_went_decides_how_long_it_is_known(
    presence, clock, announced, grace_s
):
    """A service that was stopped is forgotten soon, one that was lost is not."""
    presence.put("a", "1", ONE)
    presence.put("a", "2", ONE)
    presence.remove("a", "1", announced=not announced)
    assert presence.absence("a") is None
    presence.remove("a", "2", announced=announced)
    clock.now_s += grace_s
    assert presence.forget() == []
    assert "a" in presence
    clock.now_s += 1
    assert presence.forget() == ["a"]
    assert "a" not in presence


def test_expected_service_is_never_forgotten(presence, clock):
    """It is away until it comes back, also where it has never been seen."""
    assert presence.absence("wanted") == Absence("wanted", None)
    presence.put("wanted", "1", ONE)
    assert presence.absences() == []
    presence.remove("wanted", "1", announced=True)
    clock.now_s += 10**6
    assert presence.forget() == []
    assert [absence.service for absence in presence.absences()] == ["wanted"]
    assert "has been away since 20" in str(presence.absence("wanted"))


def test_service_that_comes_back_is_there(presence, clock):
    """And away anew when it goes again."""
    presence.put("a", "1", ONE)
    presence.remove("a", "1", announced=True)
    clock.now_s += 29
    presence.put("a", "2", ONE)
    clock.now_s += 29
    assert presence.forget() == []
    presence.remove("a", "2", announced=True)
    assert presence.is_restarting("a")
    clock.now_s += 29
    assert presence.forget() == []
    clock.now_s += 2
    assert not presence.is_restarting("a")


def test_instance_that_is_not_known_changes_nothing(presence):
    """A second `down` does not make the first one younger."""
    presence.remove("a", "1", announced=True)
    assert "a" not in presence
    assert presence.absence("a") is None


@pytest.mark.parametrize(
    ("text", "expected"), [("12", 12), ("", 0), ("-1", 0), ("\u0661", 0), ("9" * 5000, 0)]
)
def test_start_is_a_number_or_unknown(text, expected):
    """Any worker writes it."""
    assert expected == started_ms({"started_ms": text})
    assert started_ms({}) == 0
