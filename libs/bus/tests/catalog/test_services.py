"""Instances come and go, and a service is remembered according to how it went."""

from __future__ import annotations

import pytest

from searchbus_bus.catalog.services import Absence, Instance, Listing, Owners, Presence, claims
from searchbus_bus.client.discovery import started_ms
from searchbus_contracts import Catalog


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


@pytest.fixture
def now_s() -> list[float]:
    return [0.0]


def owners(now_s, **declared: str) -> Owners:
    return Owners(declared, grace_s=30.0, clock=lambda: now_s[0])


def test_the_declared_service_gets_its_toolset_whoever_comes_first(now_s, caplog):
    """Also while it does not run: then nobody has it."""
    found = owners(now_s, web="web")
    assert found.update({"aaa": ["web", "other"]}) == {"other": "aaa"}
    assert "aaa also offers the toolset web, which belongs to web" in caplog.text
    assert found.update({"aaa": ["web", "other"], "web": ["web"]}) == {"other": "aaa", "web": "web"}


def test_the_first_holder_keeps_an_undeclared_toolset(now_s):
    found = owners(now_s)
    assert found.update({"zulu": ["shared"]}) == {"shared": "zulu"}
    assert found.update({"alpha": ["shared"], "zulu": ["shared"]}) == {"shared": "zulu"}


def test_a_holder_that_stops_offering_keeps_the_name_for_the_grace_period(now_s):
    """A catalogue that is incomplete for a moment gives nothing away."""
    found = owners(now_s)
    found.update({"zulu": ["shared"]})
    both = {"alpha": ["shared"], "zulu": []}
    assert found.update(both) == {}
    now_s[0] = 29.0
    assert found.update({**both, "zulu": ["shared"]}) == {"shared": "zulu"}
    assert found.update(both) == {}
    now_s[0] = 58.0
    assert found.update(both) == {}
    now_s[0] = 60.0
    assert found.update(both) == {"shared": "alpha"}


def test_a_service_that_is_no_longer_listed_gives_its_toolsets_up(now_s):
    """It had its grace period before."""
    found = owners(now_s)
    found.update({"zulu": ["shared"]})
    assert found.update({"alpha": ["shared"]}) == {"shared": "alpha"}


def test_each_refused_offer_is_logged_and_counted_once(now_s, caplog, monkeypatch):
    """Not again with every change of any catalogue; again when it was withdrawn between."""
    counted: list[str] = []
    monkeypatch.setattr("searchbus_bus.catalog.services.telemetry.count_refused", counted.append)
    found = owners(now_s, web="web")
    for _ in range(3):
        found.update({"aaa": ["web"]})
    assert counted == ["toolset"]
    found.update({})
    found.update({"aaa": ["web"]})
    assert counted == ["toolset", "toolset"]
    assert caplog.text.count("is ignored") == 2


def test_service_that_is_away_gives_way():
    """Only where another one that is there offers the toolset."""
    offers = {"gone": ("shared", "own"), "here": ("shared",)}
    assert claims(offers, {"here"}) == {"gone": ("own",), "here": ("shared",)}
    assert claims(offers, {"gone", "here"}) == offers


ONE, TWO = Catalog(service="one"), Catalog(service="two")


def test_equal_content_has_no_following_listing():
    """Catalogues are compared by identity: comparing fifty thousand tools takes long."""
    listing = Listing(7, (ONE, TWO), {"a": "one"})
    assert listing.following((ONE, TWO), {"a": "one"}) is None


def test_any_change_has_the_next_generation():
    """Of a catalogue, of their number, of an owner."""
    listing = Listing(7, (ONE, TWO), {"a": "one"})
    for catalogs, owners in (
        ((ONE, Catalog(service="two")), {"a": "one"}),
        ((ONE,), {"a": "one"}),
        ((ONE, TWO), {"a": "two"}),
        ((ONE, TWO), {}),
    ):
        assert listing.following(catalogs, owners) == Listing(8, catalogs, owners)
