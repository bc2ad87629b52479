"""Serving an application on loopback."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from searchbus_testing import free_port, messages, serve


async def _json(request):
    return JSONResponse({"id": 1})


async def _events(request):
    return PlainTextResponse(
        'event: message\ndata: {"id": 1}\n\ndata: {"id": 2}\n\n', media_type="text/event-stream"
    )


APP = Starlette(routes=[Route("/json", _json), Route("/events", _events)])


async def test_application_is_served_until_the_block_ends():
    """On a free port, or on the one that is given."""
    port = free_port()
    async with serve(APP) as url, serve(APP, port=port) as second, httpx.AsyncClient() as client:
        assert (await client.get(f"{url}/json")).json() == {"id": 1}
        assert second == f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{url}/json")


async def test_messages_of_both_forms_of_response():
    """Plain JSON is one message; an event stream holds several."""
    async with serve(APP) as url, httpx.AsyncClient() as client:
        assert messages(await client.get(f"{url}/json")) == [{"id": 1}]
        assert messages(await client.get(f"{url}/events")) == [{"id": 1}, {"id": 2}]
