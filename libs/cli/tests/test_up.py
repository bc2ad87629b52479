"""`searchbus up`: its options. What a stack does is in test_stack.py and tests/e2e/test_up.py."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from searchbus_cli import stack as module
from searchbus_cli.children import Child
from searchbus_cli.errors import StackError
from searchbus_cli.up import ClientFollower
from searchbus_runtime.state import ClientPipe, join_clients, make_pipe
from searchbus_testing import run_command, until


@pytest.fixture
def stacks(monkeypatch) -> list:
    """The stacks that the command made; none is started."""
    made: list = []

    class Refused(module.Stack):
        async def start(self) -> None:
            made.append(self)
            raise StackError("Not in this test.")

    monkeypatch.setattr(module, "Stack", Refused)
    return made


def test_options_reach_the_stack(stacks, tmp_path):
    """Repeated ones as well."""
    done = run_command(
        "up", "--data", tmp_path, "--port", "0", "--scale", "ddg=3", "--scale", "web=2", "--secure",
        "--service", "a=b.c", "--service", "d=e", "--fake-upstreams",
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.endswith("\nerror: Not in this test.\n")
    (stack,) = stacks
    assert (tmp_path, "127.0.0.1", 0) == (stack.data, stack.host, stack.port)
    assert (stack.scale, stack.extra) == ({"ddg": 3, "web": 2}, {"a": "b.c", "d": "e"})
    assert stack.secure
    assert stack.fake_upstreams


@pytest.mark.parametrize(
    ("auth", "arguments", "secure"),
    [
        (None, [], False),
        ("static", [], True),
        ("jwt", [], True),
        ("static", ["--no-secure"], False),
        ("none", ["--host", "0.0.0.0"], False),
        (None, ["--host", "0.0.0.0"], True),
    ],
)
def test_bus_is_secured_where_callers_sign_in(
    stacks, tmp_path, monkeypatch, auth, arguments, secure
):
    """Otherwise every user of this machine could call any tool over the bus."""
    monkeypatch.delenv("SEARCHBUS_AUTH", raising=False)
    if auth is not None:
        monkeypatch.setenv("SEARCHBUS_AUTH", auth)
    run_command("up", "--data", tmp_path / "new", *arguments)
    (stack,) = stacks
    assert stack.secure is secure
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("arguments", "secure"), [([], True), (["--no-secure"], False)])
def test_bus_is_secured_where_servers_are_attached(stacks, tmp_path, arguments, secure):
    """A command of one of them could approve itself over an open bus."""
    (tmp_path / "attach.toml").touch()
    run_command("up", "--data", tmp_path, *arguments)
    assert stacks[0].secure is secure


def test_sign_in_of_the_env_file_secures_the_bus(stacks, tmp_path, monkeypatch):
    """The services read that file, too."""
    monkeypatch.delenv("SEARCHBUS_AUTH", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("SEARCHBUS_AUTH=static\n")
    run_command("up", "--data", tmp_path / "new")
    assert stacks[0].secure


def test_the_address_of_the_settings_counts_unless_an_option_is_given(
    stacks, tmp_path, monkeypatch
):
    """Those of the environment and of the file that the services read."""
    monkeypatch.delenv("SEARCHBUS_AUTH", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("SEARCHBUS_PORT=4000\nSEARCHBUS_HOST=localhost\n")
    monkeypatch.setenv("SEARCHBUS_HOST", "0.0.0.0")
    run_command("up", "--data", tmp_path / "new")
    run_command("up", "--data", tmp_path / "new", "--host", "127.0.0.1", "--port", "0")
    assert [(s.host, s.port, s.secure) for s in stacks] == [
        ("0.0.0.0", 4000, True),
        ("127.0.0.1", 0, False),
    ]
    monkeypatch.setenv("SEARCHBUS_PORT", "abc")
    done = run_command("up", "--data", tmp_path / "new")
    assert done.returncode == 2
    assert "SEARCHBUS_PORT" in done.stderr
    assert len(stacks) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scale", "ddg"], "--scale ddg: write service=number."),
        (["--scale", "ddg=x"], "must be a number from 1 to"),
        (["--scale", "ddg=0"], "must be a number from 1 to"),
        (["--scale", "ddg=100000"], "must be a number from 1 to"),
        (["--service", "a"], "--service a: write name=module."),
        (["--port", "70000"], "65535"),
    ],
)
def test_wrong_option_is_named(stacks, tmp_path, arguments, said):
    """Exit code 2, and no stack."""
    done = run_command("up", "--data", tmp_path, *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert stacks == []


@pytest.mark.parametrize("inside", ["", "folder"])
def test_folder_that_cannot_be_used_is_an_error_with_the_remedy(stacks, tmp_path, inside):
    """A file, or a folder in one."""
    path = tmp_path / "file"
    path.write_text("")
    done = run_command("up", "--data", path / inside)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: The data folder {path / inside} cannot be used (")
    assert "--data or SEARCHBUS_DATA_DIR" in done.stderr
    assert stacks == []


def test_file_of_the_folder_that_cannot_be_used_is_an_error_with_the_remedy(tmp_path):
    """A stack of root was there once."""
    (tmp_path / "up.lock").mkdir()  # root may open any file, but not a folder
    done = run_command("up", "--data", tmp_path, "--port", "0")
    assert done.returncode == 1
    assert f"error: {tmp_path / 'up.lock'} cannot be used (Is a directory)." in done.stderr
    assert "--data" in done.stderr


def test_start_says_what_a_person_needs_in_ten_lines(monkeypatch, tmp_path):
    """Address, folders, what to do next; the services' logs are in files."""

    class Started(module.Stack):
        async def start(self) -> None:
            self.url = "http://127.0.0.1:5000"
            self.children.extend([Child("nats", []), Child("edge", [])])

        async def wait(self, stop: object) -> None:
            raise StackError("Enough.")

        async def stop(self) -> None:
            await self._close_launcher()

    monkeypatch.setattr(module, "Stack", Started)
    lines = run_command("up", "--data", tmp_path).stderr.splitlines()
    assert [line.split()[0] for line in lines[10:]] == ["stopped", "error:"]
    text = "\n".join(lines)
    for part in ("http://127.0.0.1:5000/mcp", str(tmp_path), "--verbose", "Ctrl-C",
                 f"searchbus tools list --data {tmp_path}", "searchbus doctor"):  # fmt: skip
        assert part in text


@pytest.mark.parametrize("is_ignored", [True, False])
def test_a_terminal_that_closes_ends_the_stack_but_for_nohup(monkeypatch, tmp_path, is_ignored):
    """As a shell starts `nohup searchbus up &`."""
    found = []

    class Started(module.Stack):
        async def start(self) -> None:
            found.append(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)
            raise StackError("Enough.")

    monkeypatch.setattr(module, "Stack", Started)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    try:
        run_command("up", "--data", tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert found == [is_ignored]


class Followed:
    """What the follower does with a stack."""

    def __init__(self) -> None:
        self.toolsets: set[str] | None = None
        self.url = "http://127.0.0.1:1"
        self.wanted: list[str] = []
        self.published = True
        self.withdrawn = 0
        self.on_withdraw = lambda: None

    def want(self, toolset: str) -> None:
        self.wanted.append(toolset)

    def publish(self) -> None:
        self.published = True

    def withdraw(self) -> None:
        self.published = False
        self.withdrawn += 1
        self.on_withdraw()


@pytest.fixture
async def followed(tmp_path):
    """A stack with its follower; the client that started it wants "first"."""
    stack, stop = Followed(), asyncio.Event()
    reader = make_pipe(tmp_path)
    stack.starter = join_clients(tmp_path, "first")
    stack.stop = stop
    stack.reader = reader
    follower = ClientFollower(stack, ClientPipe(reader), stop)
    yield stack
    follower.close()


async def test_toolset_of_the_starter_is_known_before_the_start(followed):
    """The services that it needs are the first ones."""
    assert followed.toolsets == set()
    assert followed.wanted == ["first"]


async def test_toolsets_of_later_clients_are_wanted_too(followed, tmp_path):
    """While it runs."""
    client = join_clients(tmp_path, "second")
    await until(lambda: followed.wanted == ["first", "second"])
    os.close(client)
    assert not followed.stop.is_set()


async def test_stack_ends_with_its_last_client(followed, tmp_path):
    """The first may end before: it is a client like the others."""
    client = join_clients(tmp_path, None)
    os.close(followed.starter)
    await until(lambda: followed.wanted == ["first", "*"])
    assert not followed.stop.is_set()
    os.close(client)
    await asyncio.wait_for(followed.stop.wait(), 60)
    assert not followed.published


async def test_client_that_came_in_the_last_moment_keeps_the_stack(followed, tmp_path):
    """It found the state file before that was removed."""
    clients = []
    followed.on_withdraw = lambda: clients.append(join_clients(tmp_path, "late"))
    os.close(followed.starter)
    await until(lambda: "late" in followed.wanted)
    assert followed.withdrawn == 1
    assert followed.published
    assert not followed.stop.is_set()
    os.close(clients[0])


async def test_last_client_is_missed_where_the_system_does_not_report_it(
    followed, tmp_path, monkeypatch
):
    """As macOS does not."""
    monkeypatch.setattr("searchbus_cli.up.LOOK_S", 0.01)
    client = join_clients(tmp_path, "second")
    os.close(followed.starter)
    asyncio.get_running_loop().remove_reader(followed.reader)
    os.close(client)
    await asyncio.wait_for(followed.stop.wait(), 60)
    assert not followed.published
