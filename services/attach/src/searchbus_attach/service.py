"""Wires the service: the file, the approvals, the servers, the worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from searchbus_bus import Worker, end_task
from searchbus_runtime import Process
from searchbus_runtime.pins import PinFile
from searchbus_runtime.process import keep_freed_memory
from searchbus_runtime.server import bind
from searchbus_runtime.services import known_services

from .auth.pages import login_app
from .auth.vault import Vault
from .declare.attach_file import AttachFile, reserved_names
from .definitions.pinning import Approvals
from .errors import AuthError
from .gateway import Gateway
from .managing import Managing
from .policy import CallPolicy
from .sessions.leases import Leases
from .settings import AttachSettings
from .transports.reaping import Reaper
from .upstream.connection import ConnectionContext

QUIET_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")
"""They log whole messages of servers, headers, and addresses with their queries."""
log = logging.getLogger("searchbus.attach")
_SEAL_EVERY_S = 1.0


async def start(process: Process[AttachSettings]) -> None:
    """Start the servers of the file, serve their tools, follow all of it."""
    settings = process.settings
    keep_freed_memory(2**17)  # larger blocks of a message would leave the heap in pieces
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    worker = Worker(
        process.service, max_in_flight=settings.max_in_flight, description="Other MCP servers."
    )
    credentials = settings.credentials()
    file = AttachFile(settings.file, reserved_names(known_services()))
    logs = settings.data_dir / "logs" if settings.data_dir else None
    policy = await CallPolicy.over(process.bus)
    gateway = await process.enter(
        Gateway(
            worker,
            file,
            Approvals(PinFile(settings.pins)),
            ConnectionContext(
                logs=logs,
                credentials=credentials,
                own=settings.own_paths,
                reaper=Reaper(every=True),
            ),
            await Leases.over(process.bus),
            process.bus,
            policy,
            poll_s=settings.attach_poll_s,
            grace_s=settings.attach_grace_s,
        )
    )
    worker.add(Managing(gateway, file, logs, policy.consent))
    serving = await process.serve(worker)
    gateway.follow(serving.refresh, serving.instance)
    if credentials.logins is not None:
        await process.enter(_sealing_anew(credentials.logins.vault))
    if credentials.logins is not None and settings.attach_login_port is not None:
        await process.run_server(
            login_app(credentials.logins, gateway.server),
            # Any worker of this machine can take any step of a sign-in.
            listener=bind(settings.attach_login_host, settings.attach_login_port, reuse_port=True),
            server_header=False,
        )
        log.info("people sign in at %s", settings.login_address)


@asynccontextmanager
async def _sealing_anew(vault: Vault) -> AsyncIterator[None]:
    """Seal the sign-ins with the newest key soon after it was added."""

    async def follow() -> None:
        newest = ""
        while True:
            try:
                if vault.sealer.newest != newest:
                    count = await asyncio.to_thread(vault.seal_anew)
                    newest = vault.sealer.newest
                    if count:
                        log.info("%d sign-ins were sealed anew with the key %s", count, newest)
            except AuthError as error:
                log.error("sign-ins are not sealed with the new key yet: %s", error)
            await asyncio.sleep(_SEAL_EVERY_S)

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        await end_task(task)
