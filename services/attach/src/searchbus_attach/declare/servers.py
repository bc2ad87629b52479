"""One attached server as it is declared: its keys, their limits, its variables.

    server = parse_server("files", {"command": "npx", "args": ["-y", "server-files", "/srv"]})
    server.expanded(variables)      # ${NAME} in command, args, env, url and headers

A key that is unknown is an error that names the nearest one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from searchbus_contracts.codec import worded
from searchbus_runtime.config_file import named_config
from searchbus_runtime.state import data_folder
from searchbus_runtime.wording import nearest

from ..errors import ServerDeclarationError
from .auth_methods import Auth

Policy = Literal["warn", "hold", "accept"]
Confine = Literal["none", "processes", "files"]
State = Literal["stateless", "stateful", "per_user"]
# Without "__", and no "_" at the end: the server of a name on `/mcp`, <server>__<tool>, is what
# stands before the first "__", so that no server can take the names of another.
_NAME = re.compile(r"(?!.*__)[A-Za-z0-9](?:[A-Za-z0-9_-]{0,38}[A-Za-z0-9-])?")
_VARIABLE = re.compile(r"\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_.-]*)\}")
_Seconds = Annotated[float, Meta(gt=0, le=600)]
_OF_COMMANDS = ("args", "env", "pass_env", "cwd", "paths", "confine")
_OF_URLS = ("headers", "auth", "transport")
SECRETS_DIR = "SEARCHBUS_SECRETS_DIR"
_OWN_PREFIX = "SEARCHBUS_"
"""Variables of searchbus itself, its keys among them: no server gets one, so that a file from
elsewhere cannot send them to a stranger."""


class Server(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server: either `command` or `url`.

    Args:
        env: the variables that the command gets, besides HOME, PATH and the like.
        pass_env: names of variables of this process that the command gets too.
        auth: how searchbus signs in to a URL; see auth_methods.py.
        transport: how a URL is spoken to: `http` is streamable HTTP, `sse` the older one of
            2024-11-05.
        policy: what happens to a definition that changes: `hold` keeps the approved one and refuses
            calls, `warn` takes the new one and logs it, `accept` takes it. Default: `hold` for a
            URL, `warn` for a command.
        state: `stateless`: all callers share one session; `stateful`: the server keeps state in its
            session, so each caller has one; `per_user`: the same, with the caller's credentials.
        max_callers: that have a session of their own at once.
        required_roles: a caller needs all of these for its tools.
        start_timeout_s: from the start of the command, or the connection, to the end of initialize.
        list_timeout_s: for the whole of tools/list, all pages.
        ping_timeout_s: for the ping beside a call during which the server is silent; one that does
            not answer it hangs, and its connection is replaced.
        idle_s: without calls for that long a command is ended, until the next call; 0: never.
        max_in_flight: calls at once, at most four fifths of them of one caller; further ones fail
            with `overloaded`.
        memory_mib: that each process of a command may have (RLIMIT_DATA).
        open_files: that each process of a command may have open.
        processes: that a command may have in its session, itself included.
        confine: what a command cannot reach; see confinement.py.
        paths: files and folders that a command may read and write, with `confine` = `files`.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    cwd: str = ""
    url: str = ""
    transport: Literal["http", "sse"] = "http"
    headers: dict[str, str] = {}
    auth: Auth | None = None
    enabled: bool = True
    policy: Policy | None = None
    state: State = "stateless"
    max_callers: Annotated[int, Meta(ge=1, le=10_000)] = 64
    required_roles: tuple[str, ...] = ()
    start_timeout_s: _Seconds = 60.0
    list_timeout_s: _Seconds = 30.0
    call_timeout_s: _Seconds = 60.0
    ping_timeout_s: _Seconds = 5.0
    idle_s: Annotated[float, Meta(ge=0, le=7 * 86_400)] = 1800.0
    max_in_flight: Annotated[int, Meta(ge=1, le=1000)] = 32
    memory_mib: Annotated[int, Meta(ge=16, le=1_048_576)] = 2048
    open_files: Annotated[int, Meta(ge=16, le=1_048_576)] = 1024
    processes: Annotated[int, Meta(ge=1, le=65_536)] = 256
    confine: Confine = "processes"
    paths: tuple[str, ...] = ()

    @property
    def change_policy(self) -> Policy:
        """The policy in force."""
        return self.policy or ("hold" if self.url else "warn")

    @property
    def target(self) -> str:
        """What it is, without arguments, user, password and query: for lists and logs."""
        if not self.url:
            return Path(self.command).name
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def expanded(self, lookup: Callable[[str], str | None]) -> Server:
        """The server with `${NAME}` replaced; raises DeclarationError: a variable has no value."""

        def expand(text: str) -> str:
            def value(found: re.Match[str]) -> str:
                named = lookup(found[1])
                if named is None:
                    is_input = found[0].startswith("${input:")
                    asked = "; searchbus does not ask for inputs of VS Code" if is_input else ""
                    raise ServerDeclarationError(
                        f"{found[0]} has no value{asked}. Set {found[1]} in the environment of "
                        f"searchbus, or as a file in the folder of {SECRETS_DIR}"
                    )
                return named

            return _VARIABLE.sub(value, text)

        return msgspec.structs.replace(
            self,
            command=expand(self.command),
            args=tuple(map(expand, self.args)),
            env={name: expand(text) for name, text in self.env.items()},
            cwd=expand(self.cwd),
            paths=tuple(map(expand, self.paths)),
            url=expand(self.url),
            headers={name: expand(text) for name, text in self.headers.items()},
            auth=self.auth and self.auth.expanded(expand),
        )


def own_folders() -> tuple[Path, ...]:
    """The folders of searchbus's data and secrets, and the configuration file beside them."""
    secrets, config = os.environ.get(SECRETS_DIR), named_config()
    return (data_folder(), *filter(None, (Path(secrets) if secrets else None, config)))


def variable(name: str) -> str | None:
    """The value of a variable: a file of that name in the folder of secrets, or the environment."""
    folder = os.environ.get(SECRETS_DIR)
    path = Path(folder) / name if folder else None
    if path is not None and path.is_file():
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    return os.environ.get(name)


def parse_server(name: str, keys: Mapping[str, Any], apart: Sequence[str] = ()) -> Server:
    """A server from its table.

    Args:
        apart: keys that the table may have, and that are not among `keys`.

    Raises:
        DeclarationError: the name or a key is wrong.
    """
    server_name(name)
    known = [field for field in Server.__struct_fields__ if field != "name"]
    check_keys(name, keys, known, apart)
    if isinstance(keys.get("auth"), Mapping):
        check_keys(f"{name}.auth", keys["auth"], Auth.__struct_fields__)
    for table in ("env", "headers"):
        texts = keys.get(table)
        for inner, text in texts.items() if isinstance(texts, Mapping) else ():
            if not isinstance(text, str):
                raise ServerDeclarationError(f"{name}: {table}.{inner} is not text. Quote it.")
    server = converted(name, {**keys, "name": name}, Server)
    problem = _problem(server)
    if problem:
        raise ServerDeclarationError(f"{name}: {problem}.")
    return server


def check_keys(
    where: str, keys: Iterable[str], known: Sequence[str], apart: Sequence[str] = ()
) -> None:
    """Raise DeclarationError for a key that is not known, with the nearest one; `apart`: see
    `parse_server`."""
    for key in keys:
        if key not in known:
            near = nearest(key, [*known, *apart])
            raise ServerDeclarationError(f"{where}: there is no key {key!r}.{near}")


def server_name(name: str) -> str:
    """The name; raises DeclarationError where a server cannot have it."""
    if not _NAME.fullmatch(name):
        raise ServerDeclarationError(
            f"{name!r} cannot be a name: use 1 to 40 of A-Z a-z 0-9 _ -, without '__' and '_' at "
            "an end."
        )
    return name


def variables_of(server: Server) -> list[str]:
    """Names of the variables of this process that the server gets, in the order of the file."""
    text = msgspec.json.encode(server).decode()
    return list(dict.fromkeys([*_VARIABLE.findall(text), *server.pass_env]))


def _problem(server: Server) -> str:
    """What keys say that does not go together; empty where nothing is wrong."""
    own = [name for name in variables_of(server) if name.upper().startswith(_OWN_PREFIX)]
    if own:
        return (
            f"{own[0]} is a setting of searchbus, which no server gets. Put the value into a "
            "variable with another name"
        )
    if bool(server.command) == bool(server.url):
        return "give either 'command' or 'url'"
    if server.url:
        try:
            parts = urlsplit(server.url)
        except ValueError as error:
            return f"'url' is not an address: {error}"
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return "'url' must start with http:// or https://"
    default = Server(name=server.name)
    of_others = _OF_COMMANDS if server.url else _OF_URLS
    wrong = [key for key in of_others if getattr(server, key) != getattr(default, key)]
    if wrong and server.url:
        return f"{wrong[0]!r} is for a command, not for a URL"
    if server.paths and server.confine != "files":
        return "'paths' needs confine = \"files\""
    if wrong:
        return f"{wrong[0]!r} is for a URL, not for a command"
    return _auth_problem(server) if server.auth is not None else ""


def _auth_problem(server: Server) -> str:
    assert server.auth is not None
    problem = server.auth.problem()
    if problem:
        return problem
    if server.auth.method.for_each_caller and server.state != "per_user":
        return f"'auth' of type {server.auth.type} needs state = \"per_user\""
    name, _ = server.auth.header("")
    both = name.lower() in map(str.lower, server.headers)
    return f"give either 'auth' or a header {name!r}" if both else ""


Kind = TypeVar("Kind", bound=Struct)


def converted(where: str, keys: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """The Struct that a table holds; raises DeclarationError that begins with `where`, names the
    wrong key, and shows no value that may be secret."""
    try:
        return msgspec.convert(keys, kind)
    except msgspec.ValidationError as error:
        # In words of TOML, which has no null.
        wrong = worded(error, kind).replace(" or null", "").replace("an object", "a table")
        raise ServerDeclarationError(f"{where}: {wrong}") from None
