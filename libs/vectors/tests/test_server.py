"""The client of a Qdrant server; its behaviour is in test_store.py, in its local mode."""

from __future__ import annotations

import httpx
import pytest
from qdrant_client.http.exceptions import UnexpectedResponse

from searchbus_testing import free_port
from searchbus_vectors import StorageFull, open_store

from .conftest import point


@pytest.mark.filterwarnings("ignore:Failed to obtain server version")
async def test_missing_server_is_a_connection_error():
    """It names the address and the setting."""
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionError, match=f"{url}.*SEARCHBUS_QDRANT_URL"):
        await open_store(url=url)


async def test_many_points_go_in_several_requests():
    """The server refuses requests over 32 MB."""
    store = await open_store(url=":memory:")
    await store.ensure_collection("c", {})
    await store.upsert("c", [point(i) for i in range(1, 300)])
    assert await store.count("c") == 299
    await store.close()


@pytest.mark.parametrize("text", ["No space left on device", "exceeds available disk space"])
async def test_full_disk_of_the_server_is_typed(monkeypatch, text):
    """The service answers `storage_full`."""
    store = await open_store(url=":memory:")
    await store.ensure_collection("c", {})

    async def full(*arguments: object, **options: object) -> None:
        raise UnexpectedResponse(500, "error", text.encode(), httpx.Headers())

    monkeypatch.setattr(store._client, "upsert", full)
    with pytest.raises(StorageFull):
        await store.upsert("c", [point(1)])
    await store.close()
