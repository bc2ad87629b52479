"""Wires the service: the file, the approvals, the servers, the worker."""

from __future__ import annotations

import logging

from searchbus_bus import Call, Worker, endpoint
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_runtime import Process
from searchbus_runtime.pin_file import PinFile
from searchbus_runtime.services import known_services

from .attach_file import AttachFile
from .connection import Surroundings
from .gateway import Gateway
from .pinning import Approvals
from .settings import AttachSettings
from .taken import taken_names

__all__ = ["AttachEndpoints", "start"]


class AttachEndpoints:
    """The typed requests of the service."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @endpoint
    async def status(self, call: Call, request: StatusRequest) -> StatusReply:
        """The state of the attached servers."""
        return self._gateway.status(request)


async def start(process: Process[AttachSettings]) -> None:
    """Start the servers of the file, serve their tools, follow all of it."""
    settings = process.settings
    # They log whole messages of servers, and addresses with their queries.
    for name in ("mcp", "client", "httpx2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    worker = Worker(
        process.service, max_in_flight=settings.max_in_flight, description="Other MCP servers."
    )
    gateway = await process.enter(
        Gateway(
            worker,
            AttachFile(settings.file, taken_names(known_services())),
            Approvals(PinFile(settings.pins)),
            Surroundings(logs=settings.data_dir / "logs" if settings.data_dir else None),
            poll_s=settings.attach_poll_s,
            grace_s=settings.attach_grace_s,
        )
    )
    worker.add(AttachEndpoints(gateway))
    serving = await process.serve(worker)
    gateway.follow(serving.refresh)
