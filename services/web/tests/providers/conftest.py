"""A client that plays a provider's API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from searchbus_upstream import HttpReply, HttpRequest


class FakeClient:
    """Replies in turn with bodies, replies or errors; keeps the requests."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[HttpRequest] = []

    async def send(self, request: HttpRequest, *, timeout_s: float, max_bytes: int) -> HttpReply:
        self.requests.append(request)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, HttpReply):
            return outcome
        return HttpReply(
            200, outcome if isinstance(outcome, bytes) else json.dumps(outcome).encode()
        )

    async def close(self) -> None:
        pass


@pytest.fixture
def fake_client() -> type[FakeClient]:
    """The class, to be made with the outcomes of a test."""
    return FakeClient
