"""What a message means for the attempt that waits for it."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus.client.inbox import Failed, Pending, read_reply
from searchbus_bus.client.parts import TransitBudget
from searchbus_bus.transport import Message
from searchbus_contracts import Failure, Fault, encode


def message(data: bytes = b"", **headers: str) -> Message:
    return Message("inbox", data, "", {k.replace("_", "-"): v for k, v in headers.items()})


def read(pending: Pending, message: Message) -> bytes | Failed | None:
    return read_reply(pending, message, TransitBudget())


@pytest.fixture
async def pending() -> Pending:
    return Pending(asyncio.get_running_loop().create_future(), None, None, 0.0)


async def test_a_message_without_headers_is_the_reply(pending):
    """Its body, as it came."""
    assert read(pending, message(b"5")) == b"5"


async def test_an_acknowledgement_names_the_instance(pending):
    """And ends nothing; a name that no subject can have counts for nothing."""
    assert read(pending, message(Ack="I1")) is None
    assert pending.instance == "I1"
    assert read(pending, message(Ack="a.*")) is None
    assert pending.instance == ""


async def test_a_failure_is_read_from_its_headers_where_the_body_is_no_failure(pending):
    """Another library may have written it."""
    body = encode(Failure(code="not_found", message="There is none."))
    for data, text in ((body, "There is none."), (b"x", "Gone.")):
        failed = read(
            pending, message(data, Nats_Service_Error_Code="not_found", Nats_Service_Error="Gone.")
        )
        assert isinstance(failed, Failed)
        assert (failed.fault.code, failed.fault.failure.message) == ("not_found", text)


async def test_a_malformed_part_fails_the_attempt(pending):
    """With a typed failure."""
    failed = read(pending, message(b"x", Chunk="many"))
    assert isinstance(failed, Failed)
    assert failed.fault.code == "internal"


async def test_the_first_outcome_counts(pending):
    """A reply may come after its worker was taken for lost."""
    lost = Failed(Fault("unavailable", "It is gone."), "worker_lost")
    pending.end(lost)
    pending.end(b"late")
    assert pending.outcome.result() is lost
