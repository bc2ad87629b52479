"""The rate limit: a burst at once, then the sustained rate, whatever the unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus.gcra import Gcra


def admitted(gcra: Gcra, times: list[float]) -> list[float]:
    """The times at which a request is admitted."""
    arrival = 0.0
    found = []
    for now in times:
        if gcra.wait(arrival, now) == 0:
            arrival = gcra.advance(arrival, now)
            found.append(now)
    return found


@pytest.mark.parametrize("burst", [1, 2, 5])
def test_a_burst_is_admitted_at_once_and_no_more(burst):
    """After a pause."""
    assert len(admitted(Gcra.of_rate(10, burst), [1000.0] * 20)) == burst


def test_the_sustained_rate_is_admitted_for_ever():
    """The last request of every interval too."""
    times = [1000 + i / 10 for i in range(1000)]
    assert admitted(Gcra.of_rate(10), times) == times


def test_the_wait_is_the_time_until_the_next_request_conforms():
    """Not earlier, and not later."""
    gcra = Gcra.of_rate(2, burst=3)
    arrival = gcra.advance(0.0, 100.0, count=3)
    wait = gcra.wait(arrival, 100.0)
    assert wait == pytest.approx(0.5)
    assert gcra.wait(arrival, 100.0 + wait) == 0
    assert gcra.wait(arrival, 100.0 + wait - 0.01) > 0


def test_the_remaining_requests_decrease_and_return_with_time():
    """0 to `burst`."""
    gcra = Gcra.of_rate(1, burst=3)
    arrival = 0.0
    counts = []
    for _ in range(4):
        counts.append(gcra.remaining(arrival, 100.0))
        if gcra.wait(arrival, 100.0) == 0:
            arrival = gcra.advance(arrival, 100.0)
    assert counts == [3, 2, 1, 0]
    assert [gcra.remaining(arrival, 100.0 + s) for s in (1, 2, 3, 50)] == [1, 2, 3, 3]


def test_any_unit_of_time_serves():
    """Milliseconds of the epoch, say."""
    gcra = Gcra(interval=100, burst=2)
    now = 1_700_000_000_000
    arrival = gcra.advance(gcra.advance(0, now), now)
    assert gcra.wait(arrival, now) == 100


@given(st.floats(0.1, 1000), st.integers(1, 20), st.lists(st.floats(0, 50), max_size=80))
def test_no_window_holds_more_than_its_share(rate, burst, times):
    """At most burst + rate × length, in every window."""
    found = admitted(Gcra.of_rate(rate, burst), sorted(times))
    for start in range(len(found)):
        for end in range(start, len(found)):
            count = end - start + 1
            assert count <= burst + rate * (found[end] - found[start]) + 1e-6 * count + 1e-6


@given(st.floats(0.1, 1000), st.integers(1, 20), st.floats(0, 1e6), st.floats(0, 1e6))
def test_remaining_and_wait_agree(rate, burst, arrival, now):
    """A request conforms exactly when there is no wait."""
    gcra = Gcra.of_rate(rate, burst)
    assert (gcra.remaining(arrival, now) > 0) == (gcra.wait(arrival, now) == 0)
    assert 0 <= gcra.remaining(arrival, now) <= burst


@given(
    arrival=st.floats(0, 2000), now=st.floats(0, 2000), burst=st.integers(1, 10),
    interval=st.floats(0.001, 100),
)  # fmt: skip
def test_to_take_is_to_wait_and_advance(arrival, now, burst, interval):
    """One that has to wait does not advance."""
    gcra = Gcra(interval, burst)
    wait = gcra.wait(arrival, now)
    after = arrival if wait else gcra.advance(arrival, now)
    assert gcra.take(arrival, now) == (wait, after)
