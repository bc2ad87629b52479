"""A server that does not answer is noticed once for all requests, and is back by a probe."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_testing import until
from searchbus_vectors.liveness import Liveness, NoAnswerError


class Server:
    """Answers probes while `up`; `hangs` keeps them waiting."""

    def __init__(self) -> None:
        self.up, self.hangs, self.probes = True, False, 0

    async def probe(self) -> None:
        self.probes += 1
        if self.hangs:
            await asyncio.Event().wait()
        if not self.up:
            raise OSError("refused")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def liveness(server):
    found = Liveness("it", server.probe, silence_s=(0.01, 0.01), known_after_s=0.06, every_s=0.01)
    yield found
    await found.close()


async def after(event: asyncio.Event) -> str:
    await event.wait()
    return "done"


async def test_a_slow_request_keeps_its_time(liveness, server):
    """As long as probes are answered."""
    event = asyncio.Event()
    request = asyncio.create_task(liveness.run(after(event)))
    await until(lambda: server.probes >= 3)
    assert not request.done()
    event.set()
    assert await request == "done"


@pytest.mark.parametrize("fault", [{"up": False}, {"hangs": True}])
async def test_all_silent_requests_end_by_one_probe(liveness, server, fault):
    """And later ones at once, without being sent."""
    vars(server).update(fault)
    never = asyncio.Event()
    requests = [asyncio.create_task(liveness.run(after(never))) for _ in range(50)]
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {NoAnswerError}
    assert liveness.away
    assert server.probes <= 3  # of the fifty, and those that follow
    never.set()
    with pytest.raises(NoAnswerError):
        await liveness.run(after(never))


async def test_the_error_has_what_was_met_as_its_cause(liveness, server):
    """A probe's, of a request that was lost, and of those that are not sent."""
    server.up = False
    never = after(asyncio.Event())
    for _ in range(2):
        with pytest.raises(NoAnswerError) as raised:
            await liveness.run(never)
        assert isinstance(raised.value.__cause__, OSError)
        never = after(asyncio.Event())
    never.close()


async def test_it_is_back_as_soon_as_a_probe_is_answered(liveness, server):
    """Nobody has to try in vain first."""
    server.up = False
    liveness.lost()
    liveness.lost()
    await until(lambda: server.probes >= 2)
    server.up = True
    await until(lambda: not liveness.away)
    done = asyncio.Event()
    done.set()
    assert await liveness.run(after(done)) == "done"


async def test_a_caller_that_leaves_ends_its_request_and_not_the_probe(liveness, server):
    """Others wait for the same probe."""
    server.hangs = True
    ended = asyncio.Event()

    async def request() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(liveness.run(request()))
    await until(lambda: server.probes == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(ended.is_set)
    await until(lambda: liveness.away)


async def test_a_request_may_be_silent_for_as_long_as_is_usual(server):
    """Within its limits: a server that was quick is probed sooner."""
    liveness = Liveness("it", server.probe, silence_s=(0.0, 60.0), known_after_s=60.0)
    first_s = liveness.silence_s
    done = asyncio.Event()
    done.set()
    for _ in range(20):
        await liveness.run(after(done))
    assert liveness.silence_s < first_s / 2


async def test_a_request_ends_with_its_own_time(liveness, server):
    """However long the probe may take, which says alone whether the server is away."""
    server.hangs = True
    with pytest.raises(TimeoutError):
        await liveness.run(after(asyncio.Event()), within_s=0.001)
    assert not liveness.away


async def test_a_failure_of_the_request_is_its_own(liveness):
    """It says nothing of the server."""

    async def request() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await liveness.run(request())
    assert not liveness.away


async def test_time_in_which_the_machine_stood_still_is_no_silence(monkeypatch):
    """Neither of a probe nor of the requests that wait for it."""
    loop, now_s, stood_s = asyncio.get_running_loop(), asyncio.get_running_loop().time, 0.0
    monkeypatch.setattr(loop, "time", lambda: now_s() + stood_s)
    answered = asyncio.Event()

    async def probe() -> None:
        nonlocal stood_s
        stood_s += 61.0
        for _ in range(3):
            await asyncio.sleep(0.01)
        answered.set()

    liveness = Liveness("it", probe, silence_s=(0.01, 0.01), known_after_s=60.0)
    assert await liveness.run(after(answered)) == "done"
    assert not liveness.away


async def test_an_answer_that_comes_while_the_probe_fails_counts():
    """The server had the time for it."""
    answered = asyncio.Event()

    async def probe() -> None:
        answered.set()
        await asyncio.sleep(0.01)
        raise OSError("reset")

    liveness = Liveness("it", probe, silence_s=(0.01, 0.01))
    assert await liveness.run(after(answered)) == "done"
    await liveness.close()
