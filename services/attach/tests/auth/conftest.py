"""An authorization server, a server that it protects, and connections with credentials."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from searchbus_attach.auth.keys import Sealer
from searchbus_attach.auth.login import Logins
from searchbus_attach.auth.pages import login_app
from searchbus_attach.auth.provider import AuthHttp
from searchbus_attach.auth.vault import Vault
from searchbus_attach.declare.servers import Server, parse_server
from searchbus_runtime.server import HttpServer, bind

from .authorization_server import SECRET, Protected, protected_server

KEY = bytes(range(32))
DOCUMENTS = "https://bus.example/attach/servers/{server}/client.json"
"""Address of the client metadata documents; the pages of `sign_ins` serve them."""
DOCUMENT = "https://bus.example/attach/servers/safe/client.json"
"""The one of `safe`."""


@pytest.fixture
async def protected() -> AsyncIterator[Protected]:
    async with protected_server() as found:
        yield found


@pytest.fixture
async def http() -> AsyncIterator[AuthHttp]:
    found = AuthHttp()
    yield found
    await found.aclose()


@pytest.fixture
def sealer() -> Sealer:
    return Sealer(KEY)


@pytest.fixture
def vault(tmp_path: Path, sealer: Sealer) -> Vault:
    return Vault(tmp_path / "attach-logins.json", sealer)


@pytest.fixture
def logins(http: AuthHttp, vault: Vault) -> Logins:
    return Logins(http, vault, "http://127.0.0.1:9/attach")


def declared(protected: Protected, kind: str, **keys: Any) -> Server:
    """A server with a table `auth`."""
    return parse_server("safe", declared_keys(protected, kind, **keys))


def declared_keys(protected: Protected, kind: str, **keys: Any) -> dict[str, Any]:
    """Its keys in the file."""
    auth: dict[str, Any] = {"type": kind, "issuer": protected.provider.issuer}
    if kind != "authorization_code":
        auth |= {"client_id": "searchbus", "client_secret": SECRET}
    state = "stateless" if kind == "client_credentials" else "per_user"
    return {"url": protected.url, "state": state, "auth": {**auth, **keys}}


@dataclass
class SignIns:
    """The pages of sign-ins on a free port, for one server or more.

    Attributes:
        server: that `login_app` finds.
        others: more of them.
    """

    logins: Logins
    origin: str
    server: Server | None = None
    others: tuple[Server, ...] = ()


@pytest.fixture
async def sign_ins(http: AuthHttp, vault: Vault) -> AsyncIterator[SignIns]:
    listener = bind("127.0.0.1", 0)
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    found = SignIns(Logins(http, vault, f"{origin}/attach", DOCUMENTS), origin)

    def named(name: str) -> Server | None:
        known = (found.server, *found.others)
        return next((one for one in known if one is not None and one.name == name), None)

    server = await HttpServer.start(login_app(found.logins, named), listener=listener)
    yield found
    await server.stop()
