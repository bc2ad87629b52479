"""Tokens on requests."""

from __future__ import annotations

from types import SimpleNamespace as Of

import httpx2
import pytest

from searchbus_attach.errors import AuthError
from searchbus_attach.transports.http.client import BearerAuth, BearerClient

URL = "https://mcp.example.org/mcp"


class Source:
    """Tokens t1, t2 …; a rejected one is replaced while `renews`."""

    def __init__(self) -> None:
        self.number = 1
        self.renews = True
        self.fault: AuthError | None = None

    async def token(self, rejected: str = "") -> str:
        if self.fault is not None:
            raise self.fault
        if rejected and self.renews:
            self.number += 1
        return f"t{self.number}"


@pytest.fixture
def world():
    """A client whose server takes the tokens in `good`."""
    found = Of(source=Source(), good={"t1"}, seen=[])

    def answer(request: httpx2.Request) -> httpx2.Response:
        token = request.headers.get("authorization")
        found.seen.append((request.url.host, token))
        good = token in {f"Bearer {one}" for one in found.good}
        return httpx2.Response(200 if good else 401)

    found.auth = BearerAuth(
        URL, found.source.token, lambda token: ("Authorization", f"Bearer {token}")
    )
    found.client = BearerClient(auth=found.auth, transport=httpx2.MockTransport(answer))
    return found


async def test_the_token_is_sent_to_its_server_only(world):
    """Host, port and scheme must be the same."""
    assert (await world.client.get(URL)).status_code == 200
    for other in (
        "https://other.example/mcp", "http://mcp.example.org/mcp", "https://mcp.example.org:444/",
        "https://mcp.example.org.evil.example/",
    ):  # fmt: skip
        await world.client.get(other)
    assert [token for _, token in world.seen] == ["Bearer t1", None, None, None, None]


async def test_a_401_is_answered_by_one_other_token(world):
    """The request is sent again with it."""
    world.good = {"t2"}
    assert (await world.client.post(URL, content=b"x")).status_code == 200
    assert [token for _, token in world.seen] == ["Bearer t1", "Bearer t2"]
    assert world.auth.problem == ""


async def test_a_method_of_signing_in_chooses_the_header(world):
    """Some servers want a key in a header of their own."""
    client = BearerClient(
        auth=BearerAuth(URL, world.source.token, lambda token: ("X-Api-Key", token)),
        transport=httpx2.MockTransport(
            lambda request: httpx2.Response(
                200, json=[request.headers["x-api-key"], "authorization" in request.headers]
            )
        ),
    )
    assert (await client.get(URL)).json() == ["t1", False]


@pytest.mark.parametrize("renews", [True, False])
async def test_a_second_401_is_the_answer(world, renews):
    """No request for ever."""
    world.good = set()
    world.source.renews = renews
    assert (await world.client.get(URL)).status_code == 401
    assert len(world.seen) == 1 + renews
    assert "refuses a token that was just issued" in world.auth.problem


async def test_without_a_token_nothing_is_sent(world):
    """The client answers itself; the reason is kept until there is one."""
    world.source.fault = AuthError("no token today")
    assert (await world.client.get(URL)).status_code == 401
    assert (world.seen, world.auth.problem) == ([], "no token today")
    world.source.fault = None
    assert (await world.client.get(URL)).status_code == 200
    assert world.auth.problem == ""
