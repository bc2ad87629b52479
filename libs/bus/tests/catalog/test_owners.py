"""A toolset belongs to the service that declares it, else to the first that offers it."""

from __future__ import annotations

import pytest

from searchbus_bus.catalog.services import Owners, claims


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
