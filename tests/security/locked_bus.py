"""A server with the accounts and permissions that are shipped, and a witness in each account."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from searchbus_bus import Bus
from searchbus_bus.nats.overrides import BusClient
from searchbus_bus.transport import ServiceRecord
from searchbus_cli.secure import BUS, accounts, new_seed, public_key, store_account, with_buckets
from searchbus_runtime.services import bus_users
from searchbus_testing import until

OnError = Callable[[Exception], Awaitable[None]]


async def quiet(error: Exception) -> None:
    """The server reports every refusal; most tests look at the effect."""


async def worker_of(bus: Bus, service: str) -> ServiceRecord:
    """A worker of a service, once it answers: a busy one may miss the first question."""

    async def found() -> ServiceRecord | None:
        return next((w for w in await bus.workers() if w.service == service), None)

    return await until(found)


@dataclass(frozen=True)
class LockedBus:
    """The running server.

    Args:
        seeds: of the services on the bus.
        store_seeds: of the services that have buckets, for the accounts that hold them.
        witnesses: of a user who may do everything, by account.
    """

    url: str
    seeds: dict[str, str]
    store_seeds: dict[str, str]
    witnesses: dict[str, str]

    @asynccontextmanager
    async def user(self, name: str, on_error: OnError = quiet) -> AsyncIterator[Client]:
        """A bare connection with a service's key for the bus."""
        async with self._connected(self.seeds[name], f"_INBOX_{name}", on_error) as client:
            yield client

    @asynccontextmanager
    async def store_user(self, name: str) -> AsyncIterator[Client]:
        """A bare connection with a service's key for its buckets."""
        async with self._connected(self.store_seeds[name], f"_INBOX_{name}") as client:
            yield client

    @asynccontextmanager
    async def witness(self, account: str = BUS) -> AsyncIterator[Client]:
        """One who may do everything in an account."""
        async with self._connected(self.witnesses[account], "_INBOX_witness") as client:
            yield client

    @asynccontextmanager
    async def _connected(
        self, seed: str, inbox_prefix: str, on_error: OnError = quiet
    ) -> AsyncIterator[Client]:
        # With nats-py's own client, a flush says nothing of what was sent just before it.
        client = BusClient()
        await client.connect(
            self.url, nkeys_seed_str=seed, inbox_prefix=inbox_prefix, error_cb=on_error
        )
        try:
            yield client
        finally:
            await client.close()


def write_locked_configuration(path: Path, store: Path) -> LockedBus:
    """Write the server's configuration; the result has no URL yet.

    Args:
        store: a folder for JetStream.
    """
    services = bus_users()
    bus = LockedBus(
        url="",
        seeds={name: new_seed() for name in services},
        store_seeds={name: new_seed() for name in with_buckets(services)},
        witnesses={
            account: new_seed()
            for account in (BUS, *(store_account(name) for name in with_buckets(services)))
        },
    )
    found: dict[str, Any] = accounts(_public(bus.seeds), _public(bus.store_seeds), services)
    for account, seed in bus.witnesses.items():
        found[account]["users"].append({"nkey": public_key(seed)})
    path.write_text(
        f'jetstream {{ max_memory_store: 128MB, store_dir: "{store}" }}\n'
        f"accounts: {json.dumps(found)}\n"
    )
    return bus


def _public(seeds: dict[str, str]) -> dict[str, str]:
    return {name: public_key(seed) for name, seed in seeds.items()}
