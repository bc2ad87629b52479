"""A stack of small programs in the place of the services; its NATS server is a real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from searchbus_cli import children
from searchbus_cli import stack as module
from searchbus_cli.errors import AlreadyRunningError, StackError
from searchbus_cli.stack import Stack
from searchbus_cli.stack_services import StackService
from searchbus_contracts.services import Service
from searchbus_runtime import read_state
from searchbus_runtime.config_file import ConfigFile, WrongSettingsError
from searchbus_testing import alive, until

EDGE = """
import http.server, os, pathlib
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "2"); self.end_headers()
        self.wfile.write(b"{}")
    def log_message(self, *_): pass
address = os.environ["SEARCHBUS_HOST"], int(os.environ["SEARCHBUS_PORT"])
http.server.ThreadingHTTPServer.allow_reuse_port = "SEARCHBUS_REUSE_PORT" in os.environ
server = http.server.ThreadingHTTPServer(address, Ready)
path = pathlib.Path(os.environ["SEARCHBUS_PORT_FILE"])
path.with_suffix(".new").write_text(str(server.server_port))
path.with_suffix(".new").replace(path)
server.serve_forever()
"""
WORKER = """
import json, os, pathlib, time
data = pathlib.Path(os.environ["SEARCHBUS_DATA_DIR"])
name = "worker-" + os.environ["SEARCHBUS_WORKER_INDEX"] + ".json"
(data / name).write_text(json.dumps(dict(os.environ)))
time.sleep(600)
"""
OTHER = Service(
    name="other", toolsets=("o",), queue_group="others", scalable_with="SEARCHBUS_OTHER_URL"
)
SERVICES = {
    "edge": StackService("edge", ("-c", EDGE), Service(name="edge", signs_callers=True)),
    "other": StackService("other", ("-c", WORKER), OTHER),
}


@pytest.fixture
def services(monkeypatch) -> dict[str, StackService]:
    """What is installed; a test may add to it."""
    found = dict(SERVICES)
    monkeypatch.setattr(module, "find_services", lambda extra: dict(found))
    return found


@pytest.fixture
async def new_stack(services, tmp_path) -> AsyncIterator[Callable[..., Stack]]:
    """Stacks on one data folder; each is stopped at the end."""
    stacks: list[Stack] = []

    def new(**options: object) -> Stack:
        stacks.append(Stack(tmp_path / "data", **{"port": 0, **options}))
        return stacks[-1]

    yield new
    for stack in stacks:
        await stack.stop()


async def written_by(stack: Stack, number: int) -> dict[str, str]:
    """The environment of a worker."""
    path = stack.data / f"worker-{number}.json"

    def read() -> dict[str, str]:
        try:
            return json.loads(path.read_text())
        except (OSError, ValueError):
            return {}

    return await until(read, timeout_s=60)


async def test_state_file_lists_every_process_and_stop_ends_them(new_stack, monkeypatch):
    """It is there once the edge is ready, and gone at the end."""
    monkeypatch.setenv("SEARCHBUS_OTHER_URL", "x")
    stack = new_stack(scale={"other": 2}, environment={"WORD": "hello"})
    await stack.start()
    state = read_state(stack.data)
    assert state is not None
    assert (stack.url, os.getpid()) == (state.url, state.pid)
    assert {"nats", "edge", "other", "other-2"} == set(state.processes)
    environment = await written_by(stack, 1)
    assert ("hello", state.nats_url) == (environment["WORD"], environment["SEARCHBUS_NATS_URL"])
    await stack.stop()
    assert set() == alive(state.processes.values())
    assert read_state(stack.data) is None


async def test_each_process_has_a_log(new_stack, capsys):
    """And nothing of it is printed."""
    stack = new_stack()
    await stack.start()
    await until(lambda: "Server is ready" in (stack.logs / "nats.log").read_text(), timeout_s=60)
    assert {"nats.log", "edge.log", "other.log"} == {path.name for path in stack.logs.iterdir()}
    assert "Server is ready" not in capsys.readouterr().err


def test_service_may_take_the_time_of_its_settings_to_end(tmp_path, monkeypatch):
    """It drains its workers and then its HTTP servers. A value that it will refuse is the default."""

    def stop_s(**content: object) -> list[float]:
        stack = Stack(data=tmp_path, config=ConfigFile(tmp_path / "searchbus.toml", content))
        services = (StackService(name, ()) for name in ("web", "edge", "other"))
        return [stack._child(service, service.name, {}).stop_s for service in services]

    monkeypatch.delenv("SEARCHBUS_DRAIN_TIMEOUT_S", raising=False)
    assert stop_s() == [35, 35, 35]
    assert stop_s(drain_timeout_s=20, web={"drain_timeout_s": 0.5}) == [16, 55, 55]
    for text, expected in (("60", 135), ("soon", 35)):
        monkeypatch.setenv("SEARCHBUS_DRAIN_TIMEOUT_S", text)
        assert stop_s(drain_timeout_s=20) == [expected] * 3


async def test_state_says_how_long_the_stack_may_take_to_end(new_stack, monkeypatch):
    """For `searchbus down`: four kinds of processes end one after the other."""
    monkeypatch.setenv("SEARCHBUS_DRAIN_TIMEOUT_S", "60")
    stack = new_stack()
    await stack.start()
    assert read_state(stack.data).stop_s == 4 * 135


@pytest.mark.parametrize("name", ["SEARCHBUS_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"])
async def test_state_says_where_traces_go(new_stack, monkeypatch, tmp_path, name):
    """Without the password; a file that is damaged later does not matter to a stack that runs."""
    monkeypatch.setenv(name, "https://user:word@otlp.example:4318/x")
    stack = new_stack()
    await stack.start()
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_bytes(b"\xff")
    monkeypatch.delenv(name)
    stack.publish()
    assert read_state(stack.data).otlp_endpoint == "https://otlp.example:4318/x"


async def test_several_edges_listen_on_one_port_and_stop_before_the_workers(new_stack):
    """The first may choose the port; the others get it."""
    stack = new_stack(scale={"edge": 3})
    await stack.start()
    port = stack.url.rpartition(":")[2]
    edges = [child for child in stack.children if child.name.startswith("edge")]
    assert [child.name for child in edges] == ["edge", "edge-2", "edge-3"]
    assert {(port, "true")} == {
        (child.environment["SEARCHBUS_PORT"], child.environment["SEARCHBUS_REUSE_PORT"])
        for child in edges
    }
    state = read_state(stack.data)
    assert state is not None
    assert len(alive(state.processes.values())) == 5  # with nats and the worker
    await stack.stop()
    assert set() == alive(state.processes.values())


async def test_every_service_knows_which_others_belong_to_the_stack(new_stack):
    """Under the names that they have on the bus."""
    stack = new_stack()
    await stack.start()
    (edge,) = [child for child in stack.children if child.name == "edge"]
    assert json.loads(edge.environment["SEARCHBUS_REQUIRED_SERVICES"]) == ["others"]


@pytest.mark.parametrize("name", ["edge", "nats"])
async def test_restarted_process_keeps_its_address(new_stack, name):
    """Clients and workers find it where it was."""
    stack = new_stack()
    await stack.start()
    first = read_state(stack.data).processes[name]
    port = (stack.url if name == "edge" else stack.nats_url).rpartition(":")[2]
    os.kill(first, signal.SIGKILL)
    await until(lambda: read_state(stack.data).processes.get(name, first) != first, timeout_s=60)

    async def accepts() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", int(port))
        except OSError:
            return False
        writer.close()
        return True

    async with asyncio.timeout(60):
        while not await accepts():
            await asyncio.sleep(0.05)


async def test_services_that_no_toolset_needs_are_not_started(new_stack, services):
    """Until one is wanted that needs them."""
    more = Service(name="more", toolsets=("m",))
    services["more"] = StackService("more", ("-c", WORKER), more)
    stack = new_stack(toolsets={"m"})
    await stack.start()
    assert {"nats", "edge", "more"} == set(read_state(stack.data).processes)
    (edge,) = [child for child in stack.children if child.name == "edge"]
    assert json.loads(edge.environment["SEARCHBUS_REQUIRED_SERVICES"]) == ["more"]
    stack.want("m")
    stack.want("o")
    await until(lambda: "other" in read_state(stack.data).processes, timeout_s=60)
    assert {"nats", "edge", "more", "other"} == set(read_state(stack.data).processes)


async def test_service_whose_settings_are_wrong_later_does_not_end_the_others(
    new_stack, services, monkeypatch, capsys
):
    """Its fault is shown, and it runs once the file is correct."""
    monkeypatch.setattr(children, "RETRY_S", 0.01)
    settings = """
import os, pathlib, time
if (pathlib.Path(os.environ["SEARCHBUS_DATA_DIR"]) / "wrong").exists():
    print("error: prt: there is no such setting.")
    raise SystemExit(2)
print("fine")
time.sleep(600)
"""
    services["late"] = StackService("late", ("-c", settings), Service(name="late", toolsets=("l",)))
    stack, stop = new_stack(toolsets={"o"}), asyncio.Event()
    await stack.start()
    waiting = asyncio.create_task(stack.wait(stop))
    (stack.data / "wrong").touch()
    stack.want("l")
    shown = ""

    def shown_twice() -> bool:
        nonlocal shown
        shown += capsys.readouterr().err
        return shown.count("late prt: there is no such setting. It is started again every") > 1

    await until(shown_twice, timeout_s=60)
    (stack.data / "wrong").unlink()
    await until(lambda: "fine" in (stack.logs / "late.log").read_text(), timeout_s=60)
    stop.set()
    await waiting


async def test_service_that_crashes_does_not_end_the_others(new_stack, monkeypatch, capsys):
    """It is started again, at longer intervals; edge and NATS end the stack."""
    monkeypatch.setattr(children, "MAX_QUICK_DEATHS", 1)
    monkeypatch.setattr(children, "RETRY_S", 0.01)
    stack = new_stack()
    await stack.start()
    waiting = asyncio.create_task(stack.wait(asyncio.Event()))
    for _ in range(2):
        first = read_state(stack.data).processes["other"]
        os.kill(first, signal.SIGBUS)
        await until(
            lambda first=first: read_state(stack.data).processes.get("other", first) != first,
            timeout_s=60,
        )
    assert "started again every" in capsys.readouterr().err
    assert not waiting.done()
    os.kill(read_state(stack.data).processes["nats"], signal.SIGKILL)
    with pytest.raises(StackError, match="nats ended with code -9"):
        async with asyncio.timeout(60):
            await waiting


async def test_process_that_cannot_run_ends_the_stack(new_stack, services):
    """Exit code 2 says that its settings are wrong."""
    services["edge"] = StackService("edge", ("-c", "raise SystemExit(2)"))
    with pytest.raises(StackError, match="edge ended with code 2"):
        await new_stack().start()


async def test_second_stack_on_a_folder_is_refused(new_stack):
    """It names the first one, and does not remove its state file."""
    first = new_stack()
    await first.start()
    second = new_stack()
    with pytest.raises(AlreadyRunningError, match=f"at {first.url} .process {os.getpid()}"):
        await second.start()
    await second.stop()
    assert read_state(first.data) is not None


async def test_secured_processes_get_their_own_keys(new_stack):
    """Only a process that signs gets the private one."""
    stack = new_stack(secure=True)
    await stack.start()
    worker = await written_by(stack, 0)
    edge = next(child.environment for child in stack.children if child.name == "edge")
    assert worker["SEARCHBUS_NATS_INBOX_PREFIX"] == "_INBOX_other"
    assert worker["SEARCHBUS_NATS_NKEY_SEED"] != edge["SEARCHBUS_NATS_NKEY_SEED"]
    assert "SEARCHBUS_ACTOR_PRIVATE_KEY" in edge
    assert "SEARCHBUS_ACTOR_PRIVATE_KEY" not in worker
    assert "accounts" in (stack.data / "nats" / "server.conf").read_text()


async def test_secured_stack_refuses_a_service_without_a_declaration(new_stack, services):
    """It could not join the bus."""
    services["plain"] = StackService("plain", ("-m", "plain"))
    with pytest.raises(
        StackError, match=r"--service plain: .* Add SERVICE = Service\(name=\"plain.*--no-secure"
    ):
        await new_stack(secure=True).start()


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        ({"nope": 2}, "there is no such service. Known: edge, other."),
        ({"other": 2}, "Set SEARCHBUS_OTHER_URL to run several."),
    ],
)
async def test_scale_that_cannot_work_is_refused_before_the_start(new_stack, scale, said):
    """Nothing is started, and the folder is not touched."""
    stack = new_stack(scale=scale)
    with pytest.raises(StackError, match=said):
        await stack.start()
    assert not stack.data.exists()


async def test_taken_port_is_refused_before_the_start(new_stack):
    """The folder is not touched."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        stack = new_stack(port=taken.getsockname()[1])
        with pytest.raises(StackError, match="Choose another --port"):
            await stack.start()
    assert not stack.data.exists()


def test_programs_run_under_this_interpreter(tmp_path):
    """Not under the first Python of the PATH."""
    stack = Stack(data=tmp_path)
    assert sys.executable == stack._child(SERVICES["other"], "other", {}).command[0]


async def test_a_service_with_a_file_is_started_once_the_file_is_there(
    new_stack, services, monkeypatch
):
    """Before that it costs nothing, and nobody waits for it."""
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.05)
    monkeypatch.delenv("SEARCHBUS_OTHERS_FILE", raising=False)
    declared = Service(
        name="other", toolsets=("o",), started_by=("SEARCHBUS_OTHERS_FILE", "others.toml")
    )
    services["other"] = StackService("other", ("-c", WORKER), declared)
    stack = new_stack()
    await stack.start()
    assert "other" not in read_state(stack.data).processes
    assert stack.environment["SEARCHBUS_REQUIRED_SERVICES"] == "[]"
    stop = asyncio.Event()
    waiting = asyncio.create_task(stack.wait(stop))
    (stack.data / "others.toml").write_text("")
    await written_by(stack, 0)
    await until(lambda: "other" in read_state(stack.data).processes)
    stop.set()
    await waiting


async def test_a_file_that_a_setting_names_and_that_is_not_there_is_said(
    new_stack, services, monkeypatch, tmp_path, capsys
):
    """Once, at the start, with the setting: the service would be missing without a word."""
    monkeypatch.setenv("SEARCHBUS_OTHERS_FILE", str(tmp_path / "none.toml"))
    declared = Service(name="other", started_by=("SEARCHBUS_OTHERS_FILE", "others.toml"))
    services["other"] = StackService("other", ("-c", WORKER), declared)
    await new_stack().start()
    said = capsys.readouterr().err
    assert said.count(f"SEARCHBUS_OTHERS_FILE: there is no file {tmp_path / 'none.toml'}") == 1


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), WrongSettingsError(".env: not UTF-8.")]
)
async def test_a_service_that_cannot_be_started_now_is_started_later(
    new_stack, services, monkeypatch, capsys, error
):
    """As on a full disk, where there is no log for it, or with a damaged file; it is said once."""
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.01)
    stack = new_stack()
    await stack.start()
    tried = []

    def start() -> None:
        tried.append(1)
        if len(tried) < 3:
            raise error

    monkeypatch.setattr(stack, "_start_services", start)
    stop = asyncio.Event()
    waiting = asyncio.create_task(stack.wait(stop))
    await until(lambda: len(tried) > 3)
    stop.set()
    await waiting
    assert capsys.readouterr().err.count(str(error)) == 1
