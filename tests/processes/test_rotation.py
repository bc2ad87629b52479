"""Every key is replaced once while callers are served: none of 3,000 calls fails."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx
import pytest

from searchbus_attach.auth.keys import Sealer, key_from_text
from searchbus_attach.auth.vault import Tokens, Vault
from searchbus_attach.errors import AuthError
from searchbus_runtime.secret import values_of
from searchbus_runtime.server import HttpServer
from searchbus_runtime.services import known_services
from searchbus_testing import free_port, until
from searchbus_testing.stack import run_command

from .caller import Caller

pytestmark = pytest.mark.slow

SERVICES = ("web", "retrieval", "attach", "edge")
READ_S = 3.0
"""After this time every process has read its files again: it looks once a second."""


class Provider:
    """Brave Search, which knows some keys; an answer for every query."""

    def __init__(self, *keys: str) -> None:
        self.keys = set(keys)
        self.used: Counter[str] = Counter()
        self.refused = 0

    async def __call__(self, scope, receive, send):
        status, kind, body = self._answer(scope["path"], dict(scope["headers"]))
        await send({"type": "http.response.start", "status": status,
                    "headers": [(b"content-type", kind), (b"content-length", b"%d" % len(body))]})  # fmt: skip
        await send({"type": "http.response.body", "body": body})

    def _answer(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, bytes, bytes]:
        if path == "/page":
            text = "<p>" + "The okapi lives in the Ituri forest and browses leaves. " * 20
            return 200, b"text/html", f"<html><body><h1>Okapi</h1>{text}</body></html>".encode()
        if not path.startswith("/brave"):
            return 404, b"text/plain", b""
        key = headers.get(b"x-subscription-token", b"").decode()
        self.used[key] += 1
        if key not in self.keys:
            self.refused += 1
            return 401, b"application/json", b"{}"
        rows = [{"url": "http://a.example.org/page", "title": "A", "description": "okapi"}]
        found = {"type": "search", "web": {"results": rows}}
        return 200, b"application/json", json.dumps(found).encode()


class Installation:
    """NATS with the generated configuration, and a process for each service."""

    def __init__(self, folder: Path, own_nats_server) -> None:
        self.secrets = folder / "secrets"
        self.folder = folder
        self._log = (folder / "log").open("wb")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.configure("--rotate", "vault")
        self.configure("--rotate", "web/brave_api_keys", typed="first\n")
        config = self.secrets / "nats" / "nats.conf"
        self.nats = own_nats_server("-c", str(config), "-sd", str(folder / "js"))

    def configure(self, *arguments: str, typed: str = "") -> None:
        done = run_command("nats-config", "--out", self.secrets, *arguments, typed=typed)
        assert done.returncode == 0, done.stderr

    def start(self, name: str, **settings: object) -> None:
        given = {
            "nats_url": self.nats.url, "secrets_dir": self.secrets / name,
            "data_dir": self.folder / "data" / name, "embedder": "hash", "log_format": "json",
            **settings,
        }  # fmt: skip
        (self.folder / "data" / name).mkdir(parents=True, exist_ok=True)
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", "searchbus_runtime", name], stdout=self._log, stderr=self._log,
            env={**os.environ, **{f"SEARCHBUS_{k.upper()}": str(v) for k, v in given.items()}},
        )  # fmt: skip

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(60)
        self._log.close()


@pytest.fixture
def installation(tmp_path, own_nats_server):
    made = Installation(tmp_path, own_nats_server)
    yield made
    made.stop()


async def test_no_call_fails_while_every_key_is_rotated(installation, tmp_path, monkeypatch):
    """NATS is reloaded, never restarted; afterwards no old key is of any use."""
    provider, port, data = Provider("first", "second"), free_port(), tmp_path / "data"
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(installation.secrets / "cli"))
    monkeypatch.setenv("SEARCHBUS_NATS_URL", installation.nats.url)
    keys, logins = tmp_path / "keys.json", data / "attach" / "attach-logins.json"
    logins.parent.mkdir(parents=True)
    (logins.parent / "attach.toml").write_text("")
    secrets = Secrets(installation.secrets)
    Vault(logins, Sealer(key_from_text(secrets.vault))).put("safe", "ann", Tokens(access_token="a"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "okapi.md").write_text("# Okapis\n\nThe okapi browses leaves in Ituri.")
    token = run_command("keys", "add", "laptop", "--role", "*", "--file", keys).stdout.strip()
    async with HttpServer.serving(provider) as upstream:
        routes = json.dumps({"*.example.org": upstream.url.removeprefix("http://")})
        installation.start("retrieval")
        installation.start(
            "web", brave_url=f"{upstream.url}/brave", brave_rpm=0, web_routes=routes,
            secrets_dir=installation.secrets / "web",
        )  # fmt: skip
        installation.start("attach", attach_login_port=free_port())
        installation.start(
            "edge", port=port, auth="static", keys_file=keys, call_rate_per_s=0, costly_rate_per_s=0,
            health_port=0, required_services='["web", "retrieval", "attach"]',
        )  # fmt: skip
        await until(
            lambda: _ingested(tmp_path / "docs"),
            timeout_s=300,
            message=lambda: installation.log[-4000:],
        )
        caller = Caller(f"http://127.0.0.1:{port}", token)
        await until(
            lambda: _answers(caller), timeout_s=300, message=lambda: installation.log[-4000:]
        )
        ids = await _ids(caller)
        assert {kind.partition(":")[0] for kind in ids} == {"doc", "web"}
        old = secrets.all()
        kinds = [
            lambda number: ("web_search", {"query": f"okapi {number}"}),
            lambda _: ("search", {"query": "okapi"}),
            *(lambda _, one=one: ("fetch", {"id": one}) for one in ids),
        ]
        async with caller.calling(kinds):
            await asyncio.sleep(READ_S)
            await _rotate(installation, caller, keys)
            provider.keys.discard("first")
            await asyncio.sleep(READ_S)
        await caller.close()
    assert [*caller.outcomes] == ["ok"], (caller.outcomes, installation.log[-6000:])
    assert provider.refused == 0
    assert provider.used["second"] > 0
    assert not old & secrets.all()
    with pytest.raises(AuthError, match="not sealed with this key"):
        Vault(logins, Sealer(key_from_text(secrets.first_vault))).get("safe", "ann")
    kept = Vault(logins, Sealer(key_from_text(secrets.vault))).get("safe", "ann")
    assert kept.access_token == "a"
    log = (installation.nats.folder / "nats.log").read_text()
    assert log.count("Server is ready") == 1
    assert "refuses the key" not in installation.log


class Secrets:
    """What the files of an installation hold."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.first_vault = self.vault

    @property
    def vault(self) -> str:
        return (self._folder / "attach" / "SEARCHBUS_ATTACH_VAULT_KEY").read_text()

    def all(self) -> set[str]:
        """Each key of each service; the prefix of an inbox is none."""
        files = [p for p in self._folder.glob("*/SEARCHBUS_*") if "INBOX_PREFIX" not in p.name]
        assert len(files) > 20
        return {value for path in files for value in values_of(path.read_text())}


async def _ingested(folder: Path) -> bool:
    done = await asyncio.to_thread(run_command, "ingest", folder, "--collection", "notes")
    return done.returncode == 0


async def _answers(caller: Caller) -> bool:
    try:
        results = [await caller.call(tool, query="okapi") for tool in ("web_search", "search")]
    except httpx.HTTPError:
        return False
    return not any(result.get("isError") for result in results)


async def _ids(caller: Caller) -> list[str]:
    """One of a document and one of a page."""
    found = await caller.call("search", query="okapi")
    ids = [result["id"] for result in found["structuredContent"]["results"]]
    return sorted({one.partition(":")[0]: one for one in ids}.values())


async def _rotate(installation: Installation, caller: Caller, keys: Path) -> None:
    """Each key in two steps; what reads it has the time between them."""
    names = (*known_services(), "cli", "actor", "state", "vault")
    both = [argument for name in names for argument in ("--rotate", name)]
    await asyncio.to_thread(installation.configure, *both)
    await asyncio.to_thread(
        installation.configure, "--rotate", "web/brave_api_keys", typed="second\n"
    )
    new = await asyncio.to_thread(run_command, "keys", "rotate", "laptop", "--file", keys)
    await asyncio.to_thread(installation.nats.reload)
    await asyncio.sleep(READ_S)
    await caller.use(new.stdout.strip())
    await asyncio.to_thread(run_command, "keys", "retire", "laptop", "--file", keys)
    for name in (*names, "web/brave_api_keys"):
        await asyncio.to_thread(installation.configure, "--retire", name)
        await asyncio.to_thread(installation.nats.reload)
        await asyncio.sleep(READ_S)
