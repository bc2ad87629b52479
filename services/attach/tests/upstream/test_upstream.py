"""One server through its life: lost, expired, idle, hung, full."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from mcp_types import LoggingMessageNotificationParams

from searchbus_attach.declare.servers import Server, parse_server
from searchbus_attach.upstream import connection
from searchbus_attach.upstream import following as pauses
from searchbus_attach.upstream import session as module
from searchbus_attach.upstream.connection import ConnectionContext
from searchbus_attach.upstream.session import ServerRequest
from searchbus_attach.upstream.upstream import Upstream
from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_testing import until

from ..conftest import call_tool, children, plain
from ..remote_server import remote_server

SILENT = {"tools": [{"name": "silent", "inputSchema": {"type": "object"}}]}


class Caller:
    """The part of a Call that is used."""

    def __init__(self, remaining_s: float = 60.0, subject: str = "ann") -> None:
        self.remaining_s = remaining_s
        self.actor = Actor(subject=subject)
        self.events: list[tuple[Any, ...]] = []

    async def progress(self, *what: Any) -> None:
        self.events.append(("progress", *what))

    async def log(self, *what: Any) -> None:
        self.events.append(("log", *what))


@pytest.fixture
async def start(tmp_path) -> AsyncIterator[Callable[..., Upstream]]:
    context = ConnectionContext(logs=tmp_path / "logs")
    started: list[Upstream] = []

    def new(server: Server, **options: Any) -> Upstream:
        upstream = Upstream(server, context, **{"on_list": lambda _: None, **options})
        upstream.start()
        started.append(upstream)
        return upstream

    yield new
    for upstream in started:
        await upstream.stop()
    context.reaper.close()
    assert children() == []


def text(raw: Any) -> str:
    return raw["content"][0]["text"]


async def test_many_callers_start_one_process(start):
    """They wait for it."""
    upstream = start(plain())
    calls = [call_tool(upstream, Caller(), "echo", {"text": str(n)}) for n in range(20)]
    assert [text(raw) for raw in await asyncio.gather(*calls)] == [str(n) for n in range(20)]
    assert len(children()) == 1


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [module.MAX_DEPTH, 300])
@pytest.mark.parametrize("far", [False, True])
async def test_nested_arguments_do_not_end_the_connection_of_others(start, levels, far):
    """The SDK cannot write them, and would end the session with all its calls."""
    async with remote_server() as remote:
        upstream = start(parse_server("far", {"url": remote.url}) if far else plain())
        with pytest.raises(Fault, match="nested too deeply") as fault:
            await call_tool(upstream, Caller(), "echo", {"text": "x", "more": nested(levels)})
        assert fault.value.code == ErrorCode.INVALID_ARGUMENT
        allowed = {"text": "x", "more": nested(module.MAX_DEPTH - 1)}
        assert text(await call_tool(upstream, Caller(), "echo", allowed)) == "x"
        assert upstream.restarts == 0
        await upstream.stop()


@pytest.mark.parametrize(("chars", "aside"), [(10, False), (100_000, True)])
async def test_other_servers_do_not_wait_for_a_large_answer(start, chars, aside):
    """Its texts are cleaned in a thread."""
    threads: list[threading.Thread] = []

    def reply(raw: Any) -> Any:
        threads.append(threading.current_thread())
        return raw

    wanted = ServerRequest(
        "tools/call", lambda _: {"name": "echo", "arguments": {"text": "ы" * chars}}, reply,
        "tool", "plain", "echo", None, object,
    )  # fmt: skip
    raw = await start(plain()).request(Caller(), wanted)
    assert (len(text(raw)), len(threads)) == (chars, 1)
    assert (threads[0] is not threading.current_thread()) is aside


async def test_a_lost_call_is_not_repeated(start):
    """It may have been done; the server is back for the next one."""
    upstream = start(plain())
    with pytest.raises(Fault, match="may have been done") as fault:
        await call_tool(upstream, Caller(), "die", {})
    assert (fault.value.code, fault.value.failure.retryable) == (ErrorCode.UNAVAILABLE, False)
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"
    assert upstream.restarts == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [(-32001, "Unknown debugging session 42"), (-32000, "Connection closed")],
)
async def test_a_command_has_no_session_that_it_could_refuse(start, code, message):
    """Its tool may have others: it was called once, and goes on."""
    upstream = start(plain({"tools": [{"name": "refuse", "inputSchema": {"type": "object"}}]}))
    wrong = {"code": code, "message": message}
    with pytest.raises(Fault, match=message) as fault:
        await call_tool(upstream, Caller(), "refuse", {"error": wrong})
    assert (fault.value.code, upstream.restarts) == (ErrorCode.UPSTREAM_FAILED, 0)


async def test_a_lost_call_that_only_reads_is_repeated_once(start, tmp_path):
    """The tool says that it only reads."""
    upstream = start(plain({"once_file": str(tmp_path / "once")}))
    assert text(await call_tool(upstream, Caller(), "die_once", {}, may_repeat=True)) == "alive"


@pytest.mark.slow
async def test_crashes_are_never_the_end(start, monkeypatch):
    """After each it is started again."""
    monkeypatch.setattr(pauses, "PAUSE_S", (0.1, 0.3))
    upstream = start(plain())
    for _ in range(4):
        await until(lambda: upstream.state == "up")
        with pytest.raises(Fault, match="may have been done"):
            await call_tool(upstream, Caller(), "die", {})
        await until(lambda: upstream.state != "up")
    await until(lambda: upstream.state == "up")
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"


async def test_a_server_that_is_down_fails_its_callers_at_once(start, monkeypatch):
    """With the time of the next try; what the command printed is for the operator."""
    monkeypatch.setattr(pauses, "PAUSE_S", (300.0, 300.0))
    upstream = start(plain({"start": "die"}))
    await until(lambda: upstream.state == "down")
    with pytest.raises(Fault, match=r"ended with code 4\. Try again later\.$") as fault:
        await call_tool(upstream, Caller(600.0), "echo", {})
    assert upstream.problem != upstream.problem.told
    assert fault.value.failure.retry_after_ms > 100_000


@pytest.mark.slow
async def test_a_server_that_hangs_at_the_start_costs_its_callers_only_their_time(start):
    """They get an answer before their deadline; the process is ended at its own."""
    upstream = start(plain({"start": "hang"}, start_timeout_s=2.0))
    with pytest.raises(Fault) as fault:
        await call_tool(upstream, Caller(0.5), "echo", {})
    assert fault.value.code == ErrorCode.UNAVAILABLE
    await until(lambda: "did not start in time" in upstream.problem)


async def test_a_list_that_hangs_has_a_deadline_of_its_own(start):
    """After initialize."""
    upstream = start(plain({"list_hang": True}, list_timeout_s=0.5))
    await until(lambda: "list its tools in time" in upstream.problem)


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"start": "garbage"}, "not MCP"),
        ({"long_line_mib": 9}, "more than 8 MiB"),
        ({"endless": True, "page_size": 1}, "pages"),
    ],
)
async def test_a_server_that_misbehaves_is_ended(start, how, problem):
    """And says why."""
    upstream = start(plain(how))
    await until(lambda: problem in upstream.problem)


async def test_a_greeting_before_the_first_message_is_no_fault(start):
    """Many programs print one."""
    upstream = start(plain({"start": "greeting"}))
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"


async def test_pages_of_a_list_are_joined(start):
    """In their order."""
    upstream = start(plain({"page_size": 2}))
    await until(lambda: upstream.state == "up")
    assert len(upstream.lists.tools.descriptors) == 6


async def test_an_idle_command_is_ended_and_started_by_the_next_call(start):
    """Its tools stay listed."""
    upstream = start(plain(idle_s=0.2))
    await until(lambda: upstream.state == "idle")
    assert children() == []
    assert upstream.lists.tools.descriptors
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"


async def test_a_cancelled_call_is_cancelled_at_the_server(start, tmp_path):
    """Which reports its progress until then, and its log to the only caller."""
    upstream = start(plain({"cancel_file": str(tmp_path / "cancelled")}))
    caller = Caller()
    running = asyncio.create_task(call_tool(upstream, caller, "slow", {}))
    await until(lambda: {event[0] for event in caller.events} == {"progress", "log"})
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until((tmp_path / "cancelled").exists)
    assert upstream.in_flight == 0
    steps = [event[1] for event in caller.events if event[0] == "progress"]
    assert steps == sorted(set(steps))


@pytest.mark.slow
async def test_a_command_that_hangs_is_started_again(start):
    """After a call that it left unanswered, and a ping."""
    upstream = start(plain(ping_timeout_s=0.5))
    await until(lambda: upstream.state == "up")
    (hung,) = children()
    hung.suspend()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call_tool(upstream, Caller(), "echo", {"text": "x"}), 0.5)
    await until(lambda: upstream.restarts == 1)
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"
    assert hung not in children()


@pytest.mark.parametrize(
    "deaf", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["answers", "ignores"]
)
async def test_a_server_that_is_slow_is_not_taken_to_hang(start, deaf):
    """It answers the ping, or ignores it and answers other calls."""
    upstream = start(plain({"deaf": deaf}, ping_timeout_s=3.0))
    await until(lambda: upstream.state == "up")
    ping, done = upstream._following.ping, asyncio.Event()

    async def watched(pinged: Any) -> None:
        await ping(pinged)
        done.set()

    upstream._following.ping = watched
    running = asyncio.create_task(call_tool(upstream, Caller(), "slow", {}))
    await until(lambda: upstream.in_flight)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    while not done.is_set():
        assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"
        await asyncio.sleep(0.05)
    assert (upstream.restarts, upstream.state) == (0, "up")


async def test_a_pong_that_came_while_this_process_stood_still_counts(start):
    """As after a pause of the machine: the server does not hang."""
    upstream = start(plain(ping_timeout_s=0.5))
    await until(lambda: upstream.state == "up")
    (server,) = children()
    server.suspend()
    threading.Timer(0.3, server.resume).start()
    asyncio.get_running_loop().call_later(0.1, time.sleep, 3.0)
    await upstream._following.ping(upstream._connection)
    assert not upstream._connection.hung
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"
    assert upstream.restarts == 0


@pytest.mark.parametrize("may_repeat", [False, True])
async def test_a_call_at_a_server_that_hangs_fails_long_before_its_deadline(
    start, monkeypatch, may_repeat
):
    """It names the server; the next call has another process."""
    monkeypatch.setattr(connection, "SILENT_S", 0.2)
    upstream = start(plain(ping_timeout_s=0.3))
    await until(lambda: upstream.state == "up")
    (hung,) = children()
    hung.suspend()
    with pytest.raises(Fault, match=r"^unavailable: plain answered neither a ping nor") as fault:
        await call_tool(upstream, Caller(600.0), "echo", {"text": "x"}, may_repeat=may_repeat)
    assert fault.value.failure.retryable is may_repeat
    monkeypatch.setattr(connection, "SILENT_S", 60.0)
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"
    assert upstream.restarts == 1
    assert hung not in children()


@pytest.mark.slow
async def test_a_slow_call_goes_on_at_a_server_that_answers_pings(start, monkeypatch):
    """It says nothing for twice the time that a ping has."""
    monkeypatch.setattr(connection, "SILENT_S", 0.1)
    upstream = start(plain(SILENT, ping_timeout_s=5.0))
    assert text(await call_tool(upstream, Caller(), "silent", {"seconds": 10})) == "done"
    assert upstream.restarts == 0


@pytest.mark.slow
async def test_progress_is_a_sign_of_life(start, monkeypatch):
    """A server that ignores pings is not taken to hang while it reports."""
    monkeypatch.setattr(connection, "SILENT_S", 0.1)
    upstream = start(plain({"deaf": True}, ping_timeout_s=5.0))
    caller = Caller()
    running = asyncio.create_task(call_tool(upstream, caller, "slow", {}))
    await until(lambda: len(caller.events) > 200)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert upstream.restarts == 0


async def test_a_call_that_reaches_its_deadline_names_the_server(start):
    """Not the service that attaches it."""
    upstream = start(plain(SILENT))
    await until(lambda: upstream.state == "up")
    with pytest.raises(Fault, match="plain did not answer in time") as fault:
        await call_tool(upstream, Caller(1.0), "silent", {"seconds": 60})
    assert fault.value.code == ErrorCode.DEADLINE_EXCEEDED


async def test_a_full_server_refuses_further_calls(start):
    """At once; its callers are its own affair."""
    upstream = start(plain(max_in_flight=2))
    await until(lambda: upstream.state == "up")
    running = [asyncio.create_task(call_tool(upstream, Caller(), "slow", {})) for _ in range(2)]
    await until(lambda: upstream.in_flight == 2)
    with pytest.raises(Fault) as fault:
        await call_tool(upstream, Caller(), "echo", {})
    assert fault.value.code == ErrorCode.OVERLOADED
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_one_caller_leaves_calls_of_a_server_to_others(start):
    """However long its own take; alone it has four of five."""
    upstream = start(plain(max_in_flight=5))
    await until(lambda: upstream.state == "up")
    running = [asyncio.create_task(call_tool(upstream, Caller(), "slow", {})) for _ in range(4)]
    await until(lambda: upstream.in_flight == 4)
    with pytest.raises(Fault) as fault:
        await call_tool(upstream, Caller(), "echo", {"text": "x"})
    assert fault.value.code == ErrorCode.OVERLOADED
    await call_tool(upstream, Caller(subject="bob"), "echo", {"text": "x"})
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await call_tool(upstream, Caller(), "echo", {"text": "x"})


async def test_an_error_of_the_server_is_a_failure_and_no_lost_connection(start):
    """The same process answers the next call."""
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("refuse", "echo")]
    upstream = start(plain({"tools": tools}))
    with pytest.raises(Fault, match="refused the call") as fault:
        await call_tool(upstream, Caller(), "refuse", {})
    assert fault.value.code == ErrorCode.INVALID_ARGUMENT
    await call_tool(upstream, Caller(), "echo", {"text": "x"})
    assert upstream.restarts == 0


async def test_a_log_of_a_session_that_callers_share_is_passed_to_nobody(start):
    """It may be late, and of the other one's call."""
    upstream = start(plain())
    await call_tool(upstream, Caller(subject="ann"), "echo", {"text": "x"})
    bob = Caller(subject="bob")
    running = asyncio.create_task(call_tool(upstream, bob, "slow", {}))
    await until(lambda: len(bob.events) > 3)
    running.cancel()
    assert {event[0] for event in bob.events} == {"progress"}


async def test_a_log_controls_no_terminal_and_hides_nothing(start):
    """As progress and answers."""
    upstream = start(plain())
    await call_tool(upstream, Caller(), "echo", {"text": "x"})
    caller = Caller()
    with upstream._calls.including(caller):
        data = {"_me\u200bta": {"dev.searchbus/untrusted": False}, "text": ["\x1b[31mred"]}
        params = LoggingMessageNotificationParams(level="info", data=data, logger="\x1bdb\u202e\n")
        await upstream._connection.on_log(params)
    assert caller.events == [("log", "info", {"_meta": {}, "text": ["[31mred"]}, "db")]


@pytest.mark.parametrize(("subject", "lines"), [("ann", 1), ("bob", 0)])
async def test_a_late_log_is_not_passed_to_who_waits_to_be_sent(start, subject, lines):
    """His call is the only one, and nothing of it was sent yet: it waits for a token."""
    upstream = start(plain())
    await call_tool(upstream, Caller(subject="ann"), "echo", {"text": "x"})
    waiting = Caller(subject=subject)
    with upstream._calls.including(waiting):
        params = LoggingMessageNotificationParams(level="info", data="of ann's call")
        await upstream._connection.on_log(params)
    assert len(waiting.events) == lines


async def test_stopping_while_it_starts_leaves_nothing(start):
    """The process is ended with it."""
    upstream = start(plain({"start": "hang"}))
    await until(children)
    await upstream.stop()
    assert children() == []
