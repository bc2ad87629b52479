"""What a message means for the attempt that waits for it; see also test_inbox."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus.client.reply import FailedAttempt, Pending, read_reply
from searchbus_bus.client.transit import TransitBudget
from searchbus_bus.transport import Message
from searchbus_contracts import ErrorCode, Fault


@pytest.fixture
async def pending() -> Pending:
    return Pending(asyncio.get_running_loop().create_future(), None, None, 0.0)


async def test_an_acknowledgement_names_the_instance(pending):
    """And ends nothing; a name that no subject can have counts for nothing."""
    for name, instance in (("I1", "I1"), ("a.*", "")):
        acknowledged = Message("inbox", b"", "", {"Ack": name})
        assert read_reply(pending, acknowledged, TransitBudget()) is None
        assert pending.instance == instance


async def test_an_event_that_cannot_be_read_is_not_the_callers_fault(pending):
    """A number that is out of range is JSON all the same."""
    pending.on_event = lambda event: None
    event = Message("inbox", b'{"kind":"progress","progress":1e999}', "", {"Event": "progress"})
    outcome = read_reply(pending, event, TransitBudget())
    assert isinstance(outcome, FailedAttempt)
    assert outcome.fault.code == ErrorCode.INTERNAL


async def test_the_first_outcome_counts(pending):
    """A reply may come after its worker was taken for lost."""
    lost = FailedAttempt(Fault("unavailable", "It is gone."), "worker_lost")
    pending.end(lost)
    pending.end(b"late")
    assert pending.outcome.result() is lost
