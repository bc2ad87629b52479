"""`searchbus up`: the whole stack on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from searchbus_runtime import data_folder
from searchbus_runtime.config_check import check_config
from searchbus_runtime.config_file import ConfigFile, find_config, use_config
from searchbus_runtime.config_sources import Sources
from searchbus_runtime.services import is_wanted
from searchbus_runtime.setting_list import EXTRA, PREFIX, SHARED
from searchbus_runtime.state import ClientPipe, open_data_folder

from .errors import StackError
from .launching import Launcher
from .output import fail, tell

if TYPE_CHECKING:
    from .stack import Stack

_HOST, _PORT = "127.0.0.1", 8080
LOOK_S = 1.0
"""macOS does not report that the last writer has closed a named pipe: one has to look."""


def up(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on (default: $SEARCHBUS_HOST or 127.0.0.1)."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port; 0 takes a free one (default: $SEARCHBUS_PORT or 8080)."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Data folder (default: $SEARCHBUS_DATA_DIR or the user's own)."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration file (default: searchbus.toml in the data folder)."),
    ] = None,
    scale: Annotated[
        list[str] | None, typer.Option(help="SERVICE=N processes; may be repeated.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Edge processes on the one port, one for each core: edge=N."),
    ] = None,
    fake_upstreams: Annotated[
        bool, typer.Option(help="Use fake search engines and pages on loopback.")
    ] = False,
    secure: Annotated[
        bool | None,
        typer.Option(
            "--secure/--no-secure",
            help="Give each service only its own permissions on the bus, and sign callers "
            "(default: where callers must sign in, or servers are attached).",
        ),
    ] = None,
    service: Annotated[
        list[str] | None,
        typer.Option(help="NAME=MODULE of another service to run; may be repeated."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the logs of the services as well.")
    ] = False,
    for_clients: Annotated[
        bool, typer.Option(hidden=True, help="Standard input is the pipe of the clients.")
    ] = False,
) -> None:
    """Start NATS, every installed service and the edge; Ctrl-C stops all of them.

    Writes <data>/state.json once the edge is ready, so that other commands find the stack.

    Example: searchbus up --port 0 --data ./data
    """
    use_config(config)
    folder = open_data_folder(data)
    counts = _scale([*(scale or []), *([f"edge={workers}"] if workers is not None else [])])
    extra = dict(_pair(text, "--service", "name=module") for text in service or [])
    if extra:
        # Who names a module means the working folder, where our processes look for none.
        found_in = [str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, found_in))
        _tell_settings_of(extra)
    found = find_config(folder)
    sources = check_config(Sources(SHARED, found), folder)
    set_host, set_port, auth = edge_settings(folder, found)
    host = host or set_host
    # What a launcher imports for the services reads these two.
    preloaded = {f"{PREFIX}{n.upper()}": sources.text(n) for n in ("embedder", "model_dir")}
    launcher = Launcher.open(environment={name: text for name, text in preloaded.items() if text})
    # Imported here: the launcher imports at the same time.
    from .stack import Stack

    if secure is None:
        secure = _signs_in(host, auth) or _attaches(folder, found)
    stack = Stack(
        data=folder,
        launcher=launcher,
        host=host,
        port=set_port if port is None else port,
        scale=counts,
        fake_upstreams=fake_upstreams,
        secure=secure,
        verbose=verbose,
        extra=extra,
        config=found,
    )
    try:
        asyncio.run(_run(stack, ClientPipe(sys.stdin.fileno()) if for_clients else None))
    except OSError as error:
        if error.filename is None:
            raise
        # The folder itself can be written: a stack of another user, e.g. of root, was here.
        raise fail(
            f"{error.filename} cannot be used ({error.strerror}). Make its files yours, or choose "
            "another folder with --data."
        ) from None


async def _run(stack: Stack, clients: ClientPipe | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # `nohup` has it ignored: the stack outlives its terminal.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)

    follower = ClientFollower(stack, clients, stop) if clients is not None else None
    tell(f"starting on {stack.data}; logs: {stack.logs}")
    starting = loop.create_task(stack.start())
    stopped = loop.create_task(stop.wait())
    try:
        await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return
        starting.result()
        _say_up(stack)
        await stack.wait(stop)
    finally:
        stopped.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        if follower is not None:
            follower.close()
        await stack.stop()
        tell("stopped")


def _say_up(stack: Stack) -> None:
    """What a person needs next, in ten lines."""
    data = "" if stack.data == data_folder() else f" --data {shlex.quote(str(stack.data))}"
    steps = {
        "data": f"{stack.data} (logs in {stack.logs.name}; on the screen: --verbose)",
        "try": f'searchbus web "model context protocol"{data}',
        "documents": f"searchbus ingest FOLDER --collection docs{data}",
        "ask them": f'searchbus search "a question" --collection docs{data}',
        "tools": f"searchbus tools list{data}",
        "clients": f"searchbus init{data}, or the address above; browser: searchbus console{data}",
        "problems": f"searchbus doctor{data}",
        "stop": f"Ctrl-C, or searchbus down{data}",
    }
    lines = [
        f"[bold green]searchbus is up[/] at [bold]{stack.url}/mcp[/]",
        *(f"  {name:<10} {escape(text)}" for name, text in steps.items()),
    ]
    for line in lines:
        tell(line, markup=True)


def _signs_in(host: str, auth: str | None) -> bool:
    """Whether the edge will ask its callers for a credential."""
    return auth != "none" if auth else host not in ("localhost", "127.0.0.1", "::1")


def _attaches(folder: Path, config: ConfigFile | None) -> bool:
    """Whether programs of others will run beside the bus; one could approve itself over it."""
    from .stack_services import find_services

    try:
        services = find_services({}).values()
    except StackError:  # the stack's start says it
        return False
    declared = (service.declaration for service in services)
    return any(d and d.attaches_toolsets and is_wanted(d, folder, config) for d in declared)


def edge_settings(folder: Path, config: ConfigFile | None) -> tuple[str, int, str | None]:
    """The edge's settings HOST, PORT and AUTH; raises WrongSettingsError."""
    sources = Sources("edge", config)
    if not any(map(sources.find, ("host", "port", "auth"))):
        return _HOST, _PORT, None
    # Imported here: it takes long, and few have such settings.
    from pydantic import Field

    from searchbus_runtime import ServiceSettings
    from searchbus_runtime.settings import read_settings

    class EdgeSettings(ServiceSettings):
        host: str = _HOST
        port: int = Field(_PORT, ge=0, le=65535)
        auth: str | None = None

    read = read_settings(EdgeSettings, "edge", data_dir=folder)
    return read.host, read.port, read.auth


def _tell_settings_of(extra: Mapping[str, str]) -> None:
    """Tell this process and its children which settings the services of `--service` have."""
    # Imported here: only --service needs it.
    from searchbus_runtime.services import ServiceDeclarationError, settings_class

    from .stack_services import find_services

    try:
        services = find_services(extra)
        declared = {name: services[name].declaration for name in extra}
        names = {
            name: [] if one is None else list(settings_class(one).model_fields)
            for name, one in declared.items()
        }
    except (StackError, ServiceDeclarationError, ImportError):
        return  # the stack says so when it starts them
    os.environ[EXTRA] = json.dumps(names)


def _scale(texts: list[str]) -> dict[str, int]:
    most = 4 * (os.cpu_count() or 1) + 28
    scale = {}
    for text in texts:
        name, count = _pair(text, "--scale", "service=number")
        if not count.isdigit() or not 1 <= int(count) <= most:
            raise fail(f"--scale {text}: it must be a number from 1 to {most}.", 2)
        scale[name] = int(count)
    return scale


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise fail(f"{option} {text}: write {form}.", 2)
    return name, value


class ClientFollower:
    """Runs what the clients of a stack want; with the last of them it sets `stop`."""

    def __init__(self, stack: Stack, pipe: ClientPipe, stop: asyncio.Event) -> None:
        self._stack = stack
        self._pipe = pipe
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        stack.toolsets = set()
        self._loop.add_reader(pipe.descriptor, self._read)
        # The client that started the stack wrote its line before: it decides what is started.
        self._look()

    def close(self) -> None:
        """Stop following."""
        self._looking.cancel()
        self._loop.remove_reader(self._pipe.descriptor)
        self._pipe.close()

    def _look(self) -> None:
        self._looking = self._loop.call_later(LOOK_S, self._look)
        self._read()

    def _read(self) -> None:
        wanted = self._pipe.read()
        if wanted is None:
            # A client that opened the pipe before this found the state file, and one that comes
            # later does not. Only the first kind must be waited for.
            self._stack.withdraw()
            wanted = self._pipe.read()
            if wanted is None:
                self._loop.remove_reader(self._pipe.descriptor)
                self._looking.cancel()
                self._stop.set()
                return
            if self._stack.url:
                self._stack.publish()
        for toolset in wanted:
            self._stack.want(toolset)
