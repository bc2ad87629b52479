"""The store of tasks: whose they are, and a server that answers late."""

from __future__ import annotations

import signal
import threading

import msgspec
import pytest

from searchbus_bus import connect
from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_edge.tasks.store import MAX_PER_CALLER, Task, TaskStore

LARGE = {"text": "x" * 370_000}


def new(store: TaskStore, name: str, **fields: object) -> Task:
    """A task that expires in a minute."""
    return Task(
        id=name, tool="x", created_ms=0, updated_ms=0, deadline_ms=0,
        expires_ms=store.now_ms + 60_000, **fields,
    )  # fmt: skip


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


async def test_the_tasks_of_one_caller_have_a_size_together(clock):
    """Also those that grow by their results; what has expired counts no more."""
    bucket = MemoryKeyValue(ttl_s=None)
    store = TaskStore(bucket, b"k" * 32, clock=clock)
    made = [await store.create("ada", new(store, f"{n}", arguments=LARGE)) for n in range(6)]
    assert [revision is not None for revision in made] == [True] * 5 + [False]
    assert await store.create("bob", new(store, "b", arguments=LARGE)) is not None
    clock.now_s += 60
    small = [new(store, f"s{n}") for n in range(MAX_PER_CALLER - 5)]
    revisions = [await store.create("ada", task) for task in small]
    assert len(await bucket.keys()) == len(small) + 1 + 2  # of ada with a list, and of bob
    small[0].result = LARGE
    assert await store.update("ada", small[0], revisions[0]) is not None
    small[1].result = LARGE
    with pytest.raises(ValueError, match="with it your tasks have over 2048 KiB"):
        await store.update("ada", small[1], revisions[1])
    small[1].result = {"text": "x" * 50_000}
    assert await store.update("ada", small[1], revisions[1]) is not None
    found = await store.get("ada", "s1")
    assert found is not None and found[0].result == small[1].result


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
