"""Time that grows with a text, and time that grows with its square."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from searchbus_testing.growth import LINEAR, growth


class Machine:
    """Work that takes the time that it says, on a clock of its own."""

    def __init__(self, seconds: Callable[[int, int], float]) -> None:
        self.calls = 0
        self._seconds = seconds
        self._now_s = 0.0

    def work(self, text: str) -> None:
        self.calls += 1
        self._now_s += self._seconds(len(text), self.calls)

    def clock(self) -> float:
        return self._now_s


@pytest.mark.parametrize(("power", "linear"), [(1, True), (2, False)])
def test_the_square_of_a_text_is_told_from_the_text(power, linear):
    machine = Machine(lambda size, _: 0.01 * (size / 100) ** power)
    found = growth(machine.work, "ab", 100, clock=machine.clock)
    assert found == pytest.approx(8**power)
    assert linear == (found < LINEAR)


def test_slow_measurements_are_repeated():
    """The first three of the long text meet a busy machine."""
    machine = Machine(lambda size, call: 0.0001 * size * (9 if size > 100 and call < 7 else 1))
    assert growth(machine.work, "a", 100, clock=machine.clock) == pytest.approx(8)
    assert machine.calls == 8


def test_quadratic_time_is_found_on_a_busy_machine_too():
    """Though a short text takes several times its time now and then."""
    machine = Machine(lambda size, call: 1e-6 * size**2 * (9 if size == 100 and call > 1 else 1))
    assert growth(machine.work, "a", 100, clock=machine.clock) > LINEAR
