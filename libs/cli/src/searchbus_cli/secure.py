"""Keys of a stack that runs with `searchbus up --secure`: `<data>/secure/keys.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from searchbus_bus import new_actor_keys
from searchbus_contracts.services import Service
from searchbus_contracts.subjects import inbox_prefix
from searchbus_runtime.files import write_atomically

from .authorization import authorization, with_buckets
from .errors import StackError
from .seeds import new_seed, public_key


class _Keys(msgspec.Struct):
    """The file; seeds by the service's name, `store_seeds` of those that have buckets."""

    seeds: dict[str, str]
    actor_private: str
    actor_public: str
    store_seeds: dict[str, str] = {}


class Security:
    """The keys of a data folder for the services that share its bus; made by `open`."""

    def __init__(self, services: Mapping[str, Service], keys: _Keys) -> None:
        self._services = services
        self._keys = keys

    @classmethod
    def open(cls, data: Path, services: Mapping[str, Service]) -> Security:
        """Read the keys and make those that are missing, e.g. of a service that is new.

        Args:
            services: everyone on the bus by name, the operator too.

        Raises:
            StackError: the file of keys is damaged.
        """
        path = data / "secure" / "keys.json"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        keys = _read(path)
        if keys is None:
            private, public = new_actor_keys()
            keys = _Keys(seeds={}, actor_private=private, actor_public=public)
        missing = [name for name in services if name not in keys.seeds]
        without_store = [name for name in with_buckets(services) if name not in keys.store_seeds]
        if missing or without_store:
            keys.seeds.update({name: new_seed() for name in missing})
            keys.store_seeds.update({name: new_seed() for name in without_store})
            write_atomically(path, msgspec.json.encode(keys), mode=0o600)
        return cls(services, keys)

    @property
    def authorization(self) -> str:
        """The block for the server's configuration."""
        seeds, store_seeds = self._keys.seeds, self._keys.store_seeds
        return authorization(
            {name: public_key(seeds[name]) for name in self._services},
            {name: public_key(store_seeds[name]) for name in with_buckets(self._services)},
            self._services,
        )

    def environment(self, name: str) -> dict[str, str]:
        """The settings with which a service joins the bus.

        Raises:
            KeyError: it is not one of the services.
        """
        found = {
            "SEARCHBUS_NATS_NKEY_SEED": self._keys.seeds[name],
            "SEARCHBUS_NATS_INBOX_PREFIX": inbox_prefix(name),
            "SEARCHBUS_ACTOR_PUBLIC_KEY": self._keys.actor_public,
        }
        if self._services[name].buckets:
            found["SEARCHBUS_NATS_STORE_NKEY_SEED"] = self._keys.store_seeds[name]
        if self._services[name].signs_callers:
            found["SEARCHBUS_ACTOR_PRIVATE_KEY"] = self._keys.actor_private
        return found


def _read(path: Path) -> _Keys | None:
    """The keys of the file, checked; `None` where there is no file."""
    try:
        keys = msgspec.json.decode(path.read_bytes(), type=_Keys)
        for seed in (*keys.seeds.values(), *keys.store_seeds.values()):
            public_key(seed)
    except FileNotFoundError:
        return None
    except ValueError as error:  # also msgspec's errors, and bad UTF-8
        raise StackError(f"{path} is damaged ({error}). Delete it to make new keys.") from None
    return keys
