"""The client of a Qdrant server; its behaviour is in test_store.py, in its local mode."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import httpx
import pytest
from qdrant_client.http.exceptions import UnexpectedResponse

from searchbus_bus import TlsFiles
from searchbus_testing import free_port
from searchbus_testing.certificates import self_signed
from searchbus_vectors import (
    CollectionMissingError,
    StorageFullError,
    StoreOptions,
    StoreUnavailableError,
    open_store,
)
from searchbus_vectors.server import ServerStore
from searchbus_vectors.server_types import address_of, alias, connect

from .conftest import point, query, search

Answer = tuple[int, dict[str, str], bytes]


@contextmanager
def server(answer: Callable[[str], Answer], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The host and port of a server that answers a GET of a path with status, headers and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answer(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        if tls is not None:
            running.socket = tls.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


@pytest.mark.filterwarnings("ignore:Failed to obtain server version")
@pytest.mark.parametrize("scheme", ["http://", "HTTP://", ""])
async def test_missing_server_is_unavailable(scheme, caplog):
    """It names the address and the setting; a mere host and port is an address, too. Who opens the
    store says so, maybe once for many tries."""
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailableError, match=f"at {address} .*SEARCHBUS_QDRANT_URL"):
        await open_store(url=scheme + address)
    assert "does not answer" not in caplog.text


@pytest.mark.filterwarnings("ignore:Failed to obtain server version")
async def test_server_that_goes_away_is_unavailable():
    """For every request from then on, whether it refuses connections or a proxy answers for it."""
    statuses = [200, 200, 503]

    def proxy(_: str) -> Answer:
        body = b'{"result": {"collections": []}, "status": "ok", "time": 0}'
        return statuses.pop(0) if len(statuses) > 1 else statuses[0], {}, body

    with server(proxy) as address:
        store = await open_store(url=f"http://{address}")
        statuses[:] = [503]
        with pytest.raises(StoreUnavailableError):
            await store.check()
    for call in (
        store.check(),
        store.count("c"),
        store.ensure_collection("c", {}),
        store.upsert("c", [point(1)]),
    ):
        with pytest.raises(StoreUnavailableError, match="does not respond"):
            await call
    await store.close()


@pytest.mark.filterwarnings("ignore:Failed to obtain server version")
async def test_a_certificate_of_another_authority_is_named(tmp_path):
    """Which file is trusted, which server it is, what to set."""
    folders = [tmp_path / name for name in ("server", "other")]
    for folder in folders:
        folder.mkdir()
    (cert, key), (other, _) = map(self_signed, folders)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    with server(lambda _: (501, {}, b""), context) as address:
        url = f"https://{address}"
        with pytest.raises(StoreUnavailableError) as raised:
            await open_store(url=url, options=StoreOptions(tls=TlsFiles("QDRANT", other)))
        said = str(raised.value)
        assert str(other) in said
        assert address in said
        assert "Set SEARCHBUS_QDRANT_CA_FILE" in said
        with pytest.raises(StoreUnavailableError, match="answered 501"):
            await open_store(url=url, options=StoreOptions(tls=TlsFiles("QDRANT", cert)))


@pytest.mark.filterwarnings("ignore:Failed to obtain server version")
@pytest.mark.parametrize(
    ("status", "setting", "retryable"),
    [
        (401, "SEARCHBUS_QDRANT_API_KEY", False),
        (404, "SEARCHBUS_QDRANT_URL", True),
        (500, "SEARCHBUS_QDRANT_URL", True),
    ],
)
async def test_server_that_refuses_at_the_start_is_unavailable(status, setting, retryable):
    """The key is wrong, or something else listens there: the message names the setting."""
    with (
        server(lambda _: (status, {}, b"")) as address,
        pytest.raises(StoreUnavailableError, match=setting) as caught,
    ):
        await open_store(url=f"http://{address}")
    assert caught.value.retryable is retryable


@pytest.mark.filterwarnings("ignore:Failed to obtain server version")
@pytest.mark.parametrize(
    ("status", "headers", "text"),
    [
        (500, {}, "answered 500"),
        (429, {"Retry-After": "5"}, "refuses more requests for now"),
        (401, {}, "refuses the key .401.. Set SEARCHBUS_QDRANT_API_KEY"),
        (403, {}, "refuses the key .403.. Set SEARCHBUS_QDRANT_API_KEY"),
    ],
)
async def test_server_that_fails_a_request_is_typed(status, headers, text):
    """Such as a node of a cluster that has lost the others, or has another key: it is there, and
    answers the next."""
    statuses = [200]

    def node(path: str) -> Answer:
        listed = b"aliases" if path == "/aliases" else b"collections"
        body = (
            b'{"result": {"%s": []}, "status": "ok", "time": 0, "title": "", "version": "1.18.3"}'
            % listed
        )
        return 200 if path == "/" else statuses[0], headers, body

    with server(node) as address:
        store = await open_store(url=f"http://{address}")
        statuses[:] = [status]
        with pytest.raises(StoreUnavailableError, match=text) as caught:
            await store.collections()
        assert caught.value.retryable
        statuses[:] = [200]
        assert await store.collections() == []
        await store.close()


@pytest.mark.filterwarnings("ignore:Failed to obtain server version")
async def test_server_that_is_silent_is_named_before_the_time_of_a_read_is_over():
    """It takes connections and answers nothing, as one that is stopped does."""
    left_s = None
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        client = connect(f"http://{address}", StoreOptions())
        options = StoreOptions(remaining_s=lambda: left_s)
        store = ServerStore(client, f"http://ann:secret@{address}", options, local=False)
        left_s = 0.2
        with pytest.raises(StoreUnavailableError) as raised:
            await store.count("c")
        assert raised.value.what == f"Qdrant at {address} did not finish in time."
        left_s = 60.0
        with pytest.raises(StoreUnavailableError) as raised:
            await store.count("c")
        assert raised.value.what == f"Qdrant at {address} does not respond."
        await store.close()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://ann:secret@q.example/db?key=secret", "q.example:6333"),
        ("q.example:80", "q.example:80"),
        ("http://[::1]", "[::1]:6333"),
    ],
)
def test_address_of_a_url(url, address):
    """Host and port, never what signs in."""
    assert address_of(url) == address


async def test_many_points_go_in_several_requests():
    """The server refuses requests over 32 MB."""
    store = await open_store(url=":memory:")
    await store.ensure_collection("c", {})
    await store.upsert("c", [point(i) for i in range(1, 300)])
    assert await store.count("c") == 299
    await store.close()


@pytest.mark.parametrize("name", ["theirs", "current"])
async def test_collection_of_another_program_is_not_changed(name):
    """It has no alias of ours, but may have one of that program."""
    store = await open_store(url=":memory:")
    await store._client.create_collection("theirs", vectors_config={})
    await store._change_aliases(alias("current", "theirs"))
    await store.drop_collection(name)
    with pytest.raises(StoreUnavailableError, match="of another program"):
        await store.ensure_collection(name, {"year": "integer"})
    assert [c.name for c in (await store._client.get_collections()).collections] == ["theirs"]
    await store.ensure_collection("ours", {})
    if name == "current":
        with pytest.raises(StoreUnavailableError, match="of another program"):
            await store.rename_collection("ours", name)
    assert await store._aliases() == {"current": "theirs", "ours": "ours~1"}
    await store.close()


@pytest.mark.parametrize("text", ["No space left on device", "exceeds available disk space"])
async def test_full_disk_of_the_server_is_typed(monkeypatch, text):
    """The service answers `storage_full`."""
    store = await open_store(url=":memory:")
    await store.ensure_collection("c", {})

    async def full(*arguments: object, **options: object) -> None:
        raise UnexpectedResponse(500, "error", text.encode(), httpx.Headers())

    monkeypatch.setattr(store._client, "upsert", full)
    with pytest.raises(StorageFullError):
        await store.upsert("c", [point(1)])
    await store.close()


@pytest.mark.parametrize("status", [400, 413, 422, 500])
async def test_other_refusals_of_the_server_are_typed(monkeypatch, status):
    """As of a proxy before it, or of a collection that another program made: no internal error."""
    store = await open_store(url=":memory:")
    await store.ensure_collection("c", {})

    async def refuse(*arguments: object, **options: object) -> None:
        raise UnexpectedResponse(status, "no", b"Body too large", httpx.Headers())

    monkeypatch.setattr(store._client, "upsert", refuse)
    with pytest.raises(StoreUnavailableError, match=str(status)) as caught:
        await store.upsert("c", [point(1)])
    assert caught.value.retryable == (status >= 500)
    await store.close()


@pytest.mark.filterwarnings("ignore:Failed to obtain server version")
async def test_messages_show_no_credentials_of_the_url():
    """They reach callers and logs."""
    port = free_port()
    with pytest.raises(StoreUnavailableError, match=f"at 127.0.0.1:{port}"):
        await open_store(url=f"http://ann:secret@127.0.0.1:{port}")


@pytest.mark.parametrize(
    "url", ["http://ann:secret@q:99999", "http://ann:secret/1@q:6333", "http://ann:secret@[q"]
)
async def test_url_that_cannot_be_read_is_not_shown(url):
    """Its password would stand in the log; the same URL is not tried again."""
    with pytest.raises(StoreUnavailableError, match="QDRANT_URL") as caught:
        await open_store(url=url)
    assert "secret" not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert not caught.value.retryable


@pytest.mark.parametrize(("left_s", "timeout_s"), [(None, 30), (0.2, 1), (3.2, 4), (99.0, 30)])
async def test_read_may_take_what_is_left_of_its_request(monkeypatch, left_s, timeout_s):
    """In whole seconds; a write always has its own time, since it is not given up half way."""
    store = await open_store(url=":memory:", options=StoreOptions(remaining_s=lambda: left_s))
    await store.ensure_collection("c", {})
    given = {}

    def noting(name):
        method = getattr(store._client, name)

        async def call(*arguments, **options):
            given[name] = options["timeout"]
            return await method(*arguments, **options)

        monkeypatch.setattr(store._client, name, call)

    for name in ("count", "retrieve", "scroll", "query_points", "query_batch_points", "upsert"):
        noting(name)
    await store.upsert("c", [point(1)])
    await store.count("c")
    await store.scroll("c")
    await search(store, "c", query(1, 1001), limit=1)
    assert given.pop("upsert") == 30
    assert set(given.values()) == {timeout_s}
    assert len(given) == 5
    await store.close()


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (grpc.StatusCode.UNAVAILABLE, StoreUnavailableError, "does not respond"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, StoreUnavailableError, "did not finish in time"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, StoreUnavailableError, "refuses more requests"),
        (grpc.StatusCode.INTERNAL, StoreUnavailableError, "answered 500"),
        (grpc.StatusCode.NOT_FOUND, CollectionMissingError, "c"),
    ],
)
async def test_failures_by_grpc_are_typed(monkeypatch, code, error, text):
    """As those by HTTP."""
    store = await open_store(url=":memory:")
    await store.ensure_collection("c", {})

    async def failing(*arguments, **options):
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "details")

    monkeypatch.setattr(store._client, "count", failing)
    with pytest.raises(error, match=text):
        await store.count("c")
    await store.close()
