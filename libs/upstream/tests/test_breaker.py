"""The circuit breaker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from searchbus_upstream import Breaker
from searchbus_upstream.breaker import _open


def test_breaker_cools_down_probes_and_closes():
    """One probe at a time; each refused probe doubles the cooldown."""
    now_s = [100.0]
    breaker = Breaker(clock=lambda: now_s[0])
    assert breaker.closed
    assert breaker.refused(60) == 60
    assert breaker.refused(60) == 60  # a reply to a request sent before
    assert not breaker.try_probe()
    now_s[0] += 61
    assert not breaker.closed
    assert breaker.try_probe()
    assert not breaker.try_probe()
    assert breaker.refused(60) == 120
    now_s[0] += 121
    assert breaker.try_probe()
    breaker.succeeded()
    assert breaker.closed
    assert breaker.refused(60) == 60


def test_suspicion_opens_it_and_is_no_refusal():
    """A refused probe gets the first cooldown, not the doubled one."""
    now_s = [100.0]
    breaker = Breaker(clock=lambda: now_s[0])
    breaker.suspect(5)
    assert (breaker.closed, breaker.suspected, breaker.remaining_s) == (False, True, 5.0)
    now_s[0] += 5
    assert breaker.try_probe()
    assert breaker.refused(60) == 60
    assert not breaker.suspected
    breaker.suspect(5)
    assert breaker.remaining_s == 60


def test_suspicion_ends_by_a_refusal_or_without_proof():
    """Also where the refusal answers a request that was sent before."""
    breaker = Breaker(clock=lambda: 100.0)
    breaker.suspect(5)
    breaker.close()
    assert breaker.closed
    breaker.suspect(5)
    breaker.refused(60)
    assert breaker.remaining_s == 60


@given(st.lists(st.sampled_from(["refused", "succeeded", "probe", "wait", "suspect"]), max_size=60))
def test_breaker_is_never_closed_during_a_cooldown(steps):
    """Whatever happens, in whatever order."""
    now_s = [0.0]
    breaker = Breaker(clock=lambda: now_s[0], max_cooldown_s=1000)
    for step in steps:
        if step == "refused":
            assert breaker.refused(10) <= 1000
        elif step == "succeeded":
            breaker.succeeded()
        elif step == "suspect":
            breaker.suspect(5)
        elif step == "probe":
            assert not (breaker.try_probe() and breaker.remaining_s > 0)
        else:
            now_s[0] += 7
        assert breaker.remaining_s <= 1000
        if breaker.remaining_s > 0:
            assert not breaker.closed


def test_inconclusive_probe_leaves_the_breaker_open():
    """Another probe may be sent at once."""
    now_s = [100.0]
    breaker = Breaker(clock=lambda: now_s[0])
    breaker.refused(60)
    now_s[0] += 61
    assert breaker.try_probe()
    assert not breaker.usable
    breaker.abandon()
    assert not breaker.closed
    assert breaker.usable


def test_clock_that_is_set_back_lengthens_no_cooldown():
    """It ends after its own length at the latest."""
    now_s = [5000.0]
    breaker = Breaker(clock=lambda: now_s[0])
    breaker.refused(60)
    now_s[0] -= 3600
    assert breaker.remaining_s == 60
    now_s[0] += 60
    assert breaker.try_probe()


def test_cooldown_of_an_earlier_process_is_continued():
    """But not one that has already ended."""
    breaker = Breaker(clock=lambda: 100.0)
    breaker.restore(90.0)
    assert breaker.closed
    breaker.restore(130.0)
    assert breaker.remaining_s == 30.0


def test_it_is_shown_as_open_until_a_request_may_be_sent():
    """Not for as long as nobody sends one; while one probes it is."""
    now_s = [100.0]
    breaker = Breaker("web-test", kind="provider", clock=lambda: now_s[0])

    def shown() -> list[tuple[float, dict[str, str]]]:
        return [(value, dict(labels)) for value, labels in _open._read(breaker)]

    labels = {"breaker": "web-test", "kind": "provider"}
    assert shown() == [(0.0, labels)]
    breaker.refused(60)
    assert shown() == [(1.0, labels)]
    now_s[0] += 60
    assert shown() == [(0.0, labels)]
    assert breaker.try_probe()
    assert shown() == [(1.0, labels)]
