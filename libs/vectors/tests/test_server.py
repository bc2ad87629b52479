"""The client of a Qdrant server; its behaviour is in test_store.py, in its local mode."""

from __future__ import annotations

import pytest

from searchbus_testing import free_port
from searchbus_vectors import open_store

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
