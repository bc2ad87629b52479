"""The store of tasks: whose they are, and a server that answers late."""

from __future__ import annotations

import signal
import threading

import msgspec

from searchbus_bus import connect
from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_edge.tasks.store import Task, TaskStore


async def test_a_caller_finds_only_its_own_and_only_until_they_expire(clock):
    """Another caller's id is like one that nobody issued."""
    store = TaskStore(MemoryKeyValue(ttl_s=None), b"k" * 32, clock=clock)
    now_ms = store.now_ms
    task = Task(id="t", tool="x", created_ms=0, updated_ms=0, deadline_ms=0, expires_ms=now_ms + 9)
    assert await store.create("ada", task) is not None
    assert await store.get("bob", "t") is None
    assert await store.get("ada", "") is None
    found = await store.get("ada", "t")
    assert found is not None and msgspec.structs.asdict(found[0]) == msgspec.structs.asdict(task)
    clock.now_s += 1
    assert await store.get("ada", "t") is None


async def test_a_task_is_kept_by_a_store_that_answers_late(own_nats_server, tmp_path):
    """Without the store there is no task; caches give it up sooner."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="edge")
    store = await TaskStore.over(bus, b"k" * 32)
    late = store.now_ms + 600_000
    tasks = [Task(id=i, tool="x", created_ms=0, updated_ms=0, deadline_ms=0, expires_ms=late)
             for i in "ab"]  # fmt: skip
    assert await store.create("ada", tasks[0]) is not None
    # Of a thread: a busy moment of this loop makes the stop no longer.
    goes_on = threading.Timer(0.3, server.process.send_signal, [signal.SIGCONT])
    server.process.send_signal(signal.SIGSTOP)
    goes_on.start()
    assert await store.create("ada", tasks[1]) is not None
    await bus.close()
