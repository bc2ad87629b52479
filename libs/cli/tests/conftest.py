"""A home without settings; an MCP endpoint for the commands that speak HTTP."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class FakeEdge:
    """Answers JSON-RPC by a function for each method, and keeps what it received."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.received: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        edge = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                edge.received.append((self.path, dict(self.headers), body))
                reply = {"jsonrpc": "2.0", "id": body["id"]}
                reply |= edge.answers[body["method"]](body["params"])
                content = json.dumps(reply).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    def speak_tls(self, certificate: Path, key: Path) -> None:
        """From now on, by files of PEM."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")

    def __enter__(self) -> FakeEdge:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def fake_edge() -> Iterator[FakeEdge]:
    """A running one."""
    with FakeEdge() as edge:
        yield edge


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, in which clients and searchbus look for their settings."""
    for name in (
        "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "APPDATA", "SEARCHBUS_CONFIG", "SEARCHBUS_TOKEN",
        "SEARCHBUS_DATA_DIR",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path
