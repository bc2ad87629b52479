"""The bucket in memory: expiry by its clock, and a store that is unreachable."""

from __future__ import annotations

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Fault


async def test_an_entry_expires_after_its_time_to_live():
    """Counted from its last write."""
    now_s = [0.0]
    bucket = MemoryKeyValue(ttl_s=10.0, clock=lambda: now_s[0])
    first = await bucket.put("a", b"1")
    now_s[0] = 8
    await bucket.update("a", b"2", first)
    await bucket.put("b", b"3")
    now_s[0] = 18
    assert (await bucket.get("a")).value == b"2"
    now_s[0] = 18.1
    assert await bucket.get("a") is None
    assert await bucket.keys() == []
    assert await bucket.update("a", b"4", first + 1) is None
    assert await bucket.create("a", b"5") is not None


async def test_revisions_increase_over_the_whole_bucket():
    """As in a stream of NATS."""
    bucket = MemoryKeyValue(ttl_s=10.0)
    revisions = [
        await bucket.put("a", b""),
        await bucket.create("b", b""),
        await bucket.put("a", b""),
    ]
    assert revisions == sorted(set(revisions))


@pytest.mark.parametrize(
    "operation",
    [
        lambda bucket: bucket.get("a"),
        lambda bucket: bucket.put("a", b""),
        lambda bucket: bucket.create("a", b""),
        lambda bucket: bucket.update("a", b"", 1),
        lambda bucket: bucket.delete("a"),
        lambda bucket: bucket.keys(),
    ],
)
async def test_every_operation_fails_while_the_store_is_unreachable(operation):
    """Typed, as with NATS; tests set `away`."""
    bucket = MemoryKeyValue(ttl_s=10.0)
    bucket.away = True
    with pytest.raises(Fault) as caught:
        await operation(bucket)
    assert caught.value.code == "unavailable"
