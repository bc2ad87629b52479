"""The calls of a server that run."""

from __future__ import annotations

from types import SimpleNamespace

from searchbus_attach.upstream import running as module
from searchbus_attach.upstream.running import RunningCalls


class OneCall:
    """The part of a Call that is used."""


def test_calls_count_while_they_run():
    """Also one that fails."""
    calls = RunningCalls()
    short, long = OneCall(), OneCall()
    assert (len(calls), calls.only) == (0, None)
    with calls.including(short):
        assert calls.only is short
        with calls.including(long):
            assert (len(calls), calls.only) == (2, None)
        assert calls.only is short
    assert len(calls) == 0


def test_a_server_is_unused_since_its_last_call(monkeypatch):
    """And not while one runs."""
    now = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(module, "time", now)
    calls = RunningCalls()
    now.monotonic = lambda: 130.0
    assert calls.unused_s == 30.0
    with calls.including(OneCall()):
        assert calls.unused_s == 0.0
        now.monotonic = lambda: 140.0
    assert calls.unused_s == 0.0
    now.monotonic = lambda: 141.0
    assert calls.unused_s == 1.0
