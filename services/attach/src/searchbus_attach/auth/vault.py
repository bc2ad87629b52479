"""The vault: what people signed in to, one sealed entry for each server and caller, in one file.

    vault.put("tracker", "alice", tokens)
    vault.get("tracker", "alice")            # None: nobody signed in

The names of servers and callers are readable, for `searchbus attach logins`; tokens, and the
credentials of clients that registered themselves, are sealed. Several processes may use the file.
"""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from searchbus_runtime.files import file_stamp, locked, write_atomically

from ..errors import AuthError
from .keys import Sealer, sealed_by

_LOOK_EVERY_S = 0.05
_MARGIN_S = 60.0
T = TypeVar("T")


class Tokens(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens for one server.

    Args:
        expires_s: seconds of the epoch; None where the authorization server does not say it.
        issuer, client_id: that issued them, and to which client; for refreshing.
        target: the server that they are for (`Server.target`), where they are kept in a file.
    """

    access_token: str
    expires_s: float | None = None
    issued_s: float = 0.0
    refresh_token: str = ""
    issuer: str = ""
    client_id: str = ""
    target: str = ""

    def __repr__(self) -> str:
        return "Tokens(...)"

    def ends_soon(self, now_s: float) -> bool:
        """Whether it is time for another: a minute before its end, or in the last tenth of a
        shorter life.
        """
        if self.expires_s is None:
            return False
        life_s = self.expires_s - self.issued_s
        return now_s > self.expires_s - min(_MARGIN_S, life_s / 10)

    def expired(self, now_s: float) -> bool:
        """Whether it is of no more use."""
        return self.expires_s is not None and now_s > self.expires_s


class Registered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A client that registered itself (RFC 7591).

    Args:
        issuer, redirect_uri: that it is registered with and for; it is of no use for others.
        information: the authorization server's record.
    """

    issuer: str
    redirect_uri: str
    information: dict[str, object]

    def __repr__(self) -> str:
        return "Registered(...)"

    @property
    def client_id(self) -> object:
        """Its id."""
        return self.information.get("client_id")


class _Login(Struct, frozen=True, kw_only=True):
    """What a sealed entry holds; the names bind it to its place in the file."""

    server: str
    caller: str
    tokens: Tokens


class _Client(Struct, frozen=True, kw_only=True):
    server: str
    client: Registered


class _Content(Struct, kw_only=True, omit_defaults=True):
    logins: dict[str, dict[str, str]] = {}
    clients: dict[str, str] = {}


class Vault:
    """The file at a path, which may not exist yet, by a key from the folder of secrets. Its methods
    raise AuthError."""

    def __init__(self, path: Path, sealer: Sealer) -> None:
        self.path = path
        self.sealer = sealer

    def stamp(self) -> tuple[int, ...] | None:
        """Changes with the file's content; None where there is no file."""
        try:
            return file_stamp(self.path)
        except OSError as error:
            raise self._error(error) from None

    def get(self, server: str, caller: str) -> Tokens | None:
        """The tokens of a caller."""
        sealed = self._read().logins.get(server, {}).get(caller)
        found = self._open("login", sealed, _Login, server=server, caller=caller)
        return None if found is None else found.tokens

    def put(self, server: str, caller: str, tokens: Tokens) -> None:
        """Keep tokens."""
        login = _Login(server=server, caller=caller, tokens=tokens)
        with self._changing() as content:
            content.logins.setdefault(server, {})[caller] = self.sealer.seal("login", login)

    def remove(self, server: str, caller: str) -> bool:
        """Forget tokens; whether there were any."""
        with self._changing() as content:
            return content.logins.get(server, {}).pop(caller, None) is not None

    def logins(self) -> list[tuple[str, str]]:
        """Server and caller of each entry, sorted."""
        found = self._read().logins
        return sorted((server, caller) for server, callers in found.items() for caller in callers)

    def client(self, server: str) -> Registered | None:
        """The client that is registered for a server."""
        found = self._open("client", self._read().clients.get(server), _Client, server=server)
        return None if found is None else found.client

    def put_client(self, server: str, client: Registered) -> None:
        """Keep a registered client."""
        sealed = self.sealer.seal("client", _Client(server=server, client=client))
        with self._changing() as content:
            content.clients[server] = sealed

    def seal_anew(self) -> int:
        """Seal every entry with the newest key; how many had another one."""
        newest = self.sealer.newest
        content = self._read()
        sealed = [text for callers in content.logins.values() for text in callers.values()]
        if all(sealed_by(text) == newest for text in (*sealed, *content.clients.values())):
            return 0
        count = 0
        with self._changing() as content:
            for purpose, entries in (
                *(("login", callers) for callers in content.logins.values()),
                ("client", content.clients),
            ):
                for name, text in entries.items():
                    entries[name] = self.sealer.seal_anew(purpose, text)
                    count += entries[name] != text
        return count

    def remove_client(self, server: str) -> None:
        """Forget the client that is registered for a server."""
        with self._changing() as content:
            content.clients.pop(server, None)

    @asynccontextmanager
    async def asking(self, server: str) -> AsyncIterator[None]:
        """One refresh of a server's tokens, or registration, at a time over all processes: a
        refresh token that is used twice may end the whole sign-in.
        """
        # Of each server: an authorization server that hangs costs its own callers only.
        path = self.path.with_name(f".{self.path.name}.{server}.lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.open("w")
        except OSError as error:
            raise self._error(error) from None
        with lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_LOOK_EVERY_S)
            yield

    def _read(self) -> _Content:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return _Content()
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._error(error) from None

    def _open(self, purpose: str, sealed: str | None, kind: type[T], **names: str) -> T | None:
        """The content of an entry, if there is one, that has these names."""
        if sealed is None:
            return None
        try:
            found = self.sealer.open(purpose, sealed, kind)
        except ValueError as error:
            raise self._error(error) from None
        if any(getattr(found, key) != name for key, name in names.items()):
            raise self._error("an entry was moved")
        return found

    @contextmanager
    def _changing(self) -> Iterator[_Content]:
        try:
            with locked(self.path):
                content = self._read()
                yield content
                write_atomically(self.path, msgspec.json.encode(content), mode=0o600)
        except OSError as error:
            raise self._error(error) from None

    def _error(self, why: object) -> AuthError:
        reason = why.strerror if isinstance(why, OSError) else str(why)
        return AuthError(f"the file of sign-ins {self.path} cannot be used: {reason}")
