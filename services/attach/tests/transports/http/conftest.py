"""Every test here runs on asyncio's loop, as other tests, and on uvloop, as the service."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> dict[str, Any]:
    """See pytest-asyncio."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
