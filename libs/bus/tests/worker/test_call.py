"""One request as its handler sees it."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_bus import Call
from searchbus_bus.client.request import Deadline
from searchbus_contracts import Actor, ToolEvent


def call_with(events: list[ToolEvent], timeout_s: float = 60.0) -> Call:
    async def send_event(event: ToolEvent) -> None:
        events.append(event)

    return Call(
        req_id="r", service="s", subject="sb.v1.s.v", actor=Actor(),
        deadline=Deadline.after(timeout_s), relay=send_event,
    )  # fmt: skip


def test_the_remaining_time_is_never_negative():
    """Handlers pass it on as a timeout."""
    assert 0 < call_with([]).remaining_s <= 60
    assert call_with([], timeout_s=-5).remaining_s == 0


async def test_progress_and_log_lines_are_events():
    """As in MCP."""
    events: list[ToolEvent] = []
    call = call_with(events)
    await call.progress(1, 3, "one")
    await call.log("warning", {"a": 1}, "name")
    assert events == [
        ToolEvent(kind="progress", progress=1, total=3, message="one"),
        ToolEvent(kind="log", level="warning", data={"a": 1}, logger="name"),
    ]


async def test_events_of_another_worker_are_passed_on():
    """As they came."""
    events: list[ToolEvent] = []
    event = ToolEvent(kind="progress", progress=2)
    await call_with(events).relay(event)
    assert events == [event]


async def test_a_level_that_syslog_does_not_have_is_refused():
    """The client would not understand it."""
    with pytest.raises(msgspec.ValidationError, match="level"):
        await call_with([]).log("loud", "x")


def test_a_call_without_input_has_none():
    """A tool that asks for input checks these."""
    call = call_with([])
    assert (call.input_responses, call.state, call.client_capabilities) == (None, None, ())
