"""How a process or a command connects to the bus: address, credentials, TLS, keys of callers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from searchbus_bus import ActorSigner, ActorVerifier, Bus, Seeds
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.services import OPERATOR
from searchbus_contracts.subjects import inbox_prefix

from .config_file import find_config
from .config_sources import Sources
from .setting_list import SHARED
from .settings import (
    ServiceSettings,
    SigningSettings,
    check_private_key,
    check_public_key,
    check_seed,
    load_settings,
)
from .state import STACK_KEYS, no_stack, read_state
from .wording import CommandError


def bus_options(settings: ServiceSettings) -> dict[str, Any]:
    """The options of `connect` that settings ask for: prefix, credentials, TLS, actor keys."""
    options: dict[str, Any] = {
        "prefix": settings.subject_prefix,
        "inbox_prefix": settings.nats_inbox_prefix,
    }
    for option, name in (("seeds", "nats_nkey_seed"), ("store_seeds", "nats_store_nkey_seed")):
        seed = settings.secret(name, check_seed)
        if seed is not None:
            user = settings.nats_inbox_prefix.removeprefix("_INBOX_")
            options[option] = Seeds(seed.latest, user=user, setting=name)
    if settings.nats_tls is not None:
        options["tls_files"] = settings.nats_tls
    public = settings.secret("actor_public_key", check_public_key)
    if public is not None:
        options["verifier"] = ActorVerifier(public.accepted)
    if isinstance(settings, SigningSettings):
        private = settings.secret("actor_private_key", check_private_key)
        if private is not None:
            options["signer"] = ActorSigner(private.values)
    return options


def stack_options(data: Path, service: str = OPERATOR.name) -> dict[str, Any]:
    """The options of `connect` with which a program of this machine joins the stack of a folder, as
    the operator or as a service; a secured stack has their keys in a file. Raises
    Fault(unavailable) where that is damaged."""
    path = data / STACK_KEYS
    if not path.is_file():
        return {}
    try:
        keys = json.loads(path.read_text(encoding="utf-8"))
        found = {"seeds": keys["seeds"][service]}
        if store_seed := keys.get("store_seeds", {}).get(service):
            found["store_seeds"] = store_seed
        for seed in found.values():
            check_seed(seed)
        signer = ActorSigner(keys["actor_private"])
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Fault(
            ErrorCode.UNAVAILABLE,
            f"{path} is damaged. Delete it, and start the stack again to make new keys.",
            retryable=False,
        ) from None
    return {
        **{option: Seeds.of(seed, user=service) for option, seed in found.items()},
        "inbox_prefix": inbox_prefix(service),
        "signer": signer,
    }


@dataclass(frozen=True, slots=True)
class BusAddress:
    """The URL of a bus, and the options of `connect` for it."""

    url: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)


def find_bus(data: Path) -> BusAddress | None:
    """The bus that a command uses; `None` where none is known.

    The setting `nats_url` comes first, with the credentials of the settings (a cluster,
    containers). Else it is the stack that runs on the data folder, with its operator's keys.
    """
    if Sources(SHARED, find_config(data)).find("nats_url"):
        settings = load_settings(SigningSettings, data_dir=data)
        return BusAddress(settings.nats_url, bus_options(settings))
    state = read_state(data)
    if state is None:
        return None
    return BusAddress(state.nats_url, stack_options(Path(state.data)))


@asynccontextmanager
async def open_bus(at: Path | BusAddress, name: str) -> AsyncIterator[Bus]:
    """A connection for one command, to a bus or to that of a data folder (`find_bus`); raises
    CommandError (none is known), Fault(unavailable)."""
    from searchbus_bus import connect  # here: most who look for a bus find none

    if isinstance(at, Path):
        if (address := find_bus(at)) is None:
            raise CommandError(no_stack(at))
    else:
        address = at
    bus = await connect(address.url, name=name, **address.options)
    try:
        yield bus
    finally:
        await bus.close()
