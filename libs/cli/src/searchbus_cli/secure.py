"""The keys of a secured stack (`<data>/secure/keys.json`), and the accounts of a NATS server.

Everyone on the bus is a user of the account BUS, with lists of subjects, and without JetStream. The
buckets of a service are in an account of its own, STORE_<service>, with a second key: accounts are
separate sets of subjects. In one account permissions would not be enough. A stream may copy any
subject, a consumer may deliver to any, and JetStream replies to whatever reply subject a request
names: NATS checks none of these against the lists of the user who asks.

`searchbus nats-config --rotate NAME` and `--retire NAME` replace a key while it is in use. A file
of secrets holds one value, and two while the value is replaced: the old one, then the new one.
Services read their files again; see `searchbus_runtime.secret`. NAME is a service (its keys at
NATS), `actor`, `state`, `vault`, or SERVICE/SETTING for a secret that another server issues.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec
import nkeys
import typer

from searchbus_bus import new_actor_keys
from searchbus_contracts.services import Service, permissions
from searchbus_contracts.subjects import DEFAULT_PREFIX, inbox_prefix
from searchbus_runtime.files import locked, write_atomically
from searchbus_runtime.secret import values_of
from searchbus_runtime.setting_list import listed_settings
from searchbus_runtime.state import STACK_KEYS

from .errors import StackError


class StackKeys(msgspec.Struct):
    """The file; seeds by the service's name, `store_seeds` of those that have buckets."""

    seeds: dict[str, str]
    actor_private: str
    actor_public: str
    store_seeds: dict[str, str] = {}


class Security:
    """The keys of a data folder for the services that share its bus; made by `open`."""

    def __init__(self, services: Mapping[str, Service], keys: StackKeys) -> None:
        self._services = services
        self._keys = keys

    @classmethod
    def open(cls, data: Path, services: Mapping[str, Service]) -> Security:
        """Read the keys and make those that are missing, e.g. of a service that is new.

        Args:
            services: everyone on the bus by name, the operator too.

        Raises:
            StackError: the key file is damaged.
        """
        path = data / STACK_KEYS
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        with locked(path):
            keys = read_keys(path)
            if keys is None:
                private, public = new_actor_keys()
                keys = StackKeys(seeds={}, actor_private=private, actor_public=public)
            missing = [name for name in services if name not in keys.seeds]
            new_stores = [name for name in with_buckets(services) if name not in keys.store_seeds]
            if missing or new_stores:
                keys.seeds.update({name: new_seed() for name in missing})
                keys.store_seeds.update({name: new_seed() for name in new_stores})
                write_atomically(path, msgspec.json.encode(keys), mode=0o600)
        return cls(services, keys)

    @property
    def authorization(self) -> str:
        """The block for the server's configuration."""
        seeds, store_seeds = self._keys.seeds, self._keys.store_seeds
        return authorization(
            accounts(
                {name: public_keys(seeds[name]) for name in self._services},
                {name: public_keys(store_seeds[name]) for name in with_buckets(self._services)},
                self._services,
            )
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


def read_keys(path: Path) -> StackKeys | None:
    """The keys of the file, checked; `None` where there is no file."""
    try:
        keys = msgspec.json.decode(path.read_bytes(), type=StackKeys)
        for seed in (*keys.seeds.values(), *keys.store_seeds.values()):
            public_keys(seed)
    except FileNotFoundError:
        return None
    except ValueError as error:  # also msgspec's errors, and bad UTF-8
        raise StackError(f"{path} is damaged ({error}). Delete it to make new keys.") from None
    return keys


BUS = "BUS"


def bus_account(tenant: str = "") -> str:
    """The account of everyone on a tenant's bus; the installation itself has the empty name."""
    return f"{BUS}_{tenant}" if tenant else BUS


def store_account(service: str, tenant: str = "") -> str:
    """The account that holds the buckets of a service. No name of a tenant has an underscore."""
    return f"STORE_{tenant}_{service}" if tenant else f"STORE_{service}"


def with_buckets(services: Mapping[str, Service]) -> list[str]:
    """Names of the services that have buckets, and so a second key."""
    return [name for name, service in services.items() if service.buckets]


def authorization(found: Mapping[str, object]) -> str:
    """The block of a server's configuration, of what `accounts` returns."""
    # JSON is a form of NATS's configuration language.
    return f"accounts: {json.dumps(found, indent=1)}\n"


def accounts(
    public_keys: Mapping[str, str],
    store_keys: Mapping[str, str],
    services: Mapping[str, Service],
    prefix: str = DEFAULT_PREFIX,
    tenant: str = "",
) -> dict[str, dict[str, object]]:
    """Name → account. On the bus the server denies what is not in a user's lists.

    Args:
        public_keys, services: by the service's name; two keys, with a blank between them, while
            one is rotated.
        store_keys: the second keys, of the services that have buckets.
        prefix: of the subjects.
        tenant: whose accounts they are; empty for those of the installation itself.
    """
    users = [
        {"nkey": key, "permissions": permissions(services[name], services.values(), prefix)}
        for name, keys in public_keys.items()
        for key in keys.split()
    ]
    found: dict[str, dict[str, object]] = {bus_account(tenant): {"users": users}}
    for name, keys in store_keys.items():
        store_users = [{"nkey": key} for key in keys.split()]
        found[store_account(name, tenant)] = {"jetstream": "enabled", "users": store_users}
    return found


def new_seed() -> str:
    """The seed of a new user: its private key, which is to be kept secret."""
    seed: bytes = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return seed.decode()


def public_keys(seeds: str) -> str:
    """The public key of a seed, or of two with a blank between them; see `accounts`.

    Raises:
        ValueError: one of them is not a seed, or there is none.
    """
    return " ".join(public_key(seed) for seed in seeds.split() or [""])


def public_key(seed: str) -> str:
    """The public key of a seed; the server knows users by it.

    Raises:
        ValueError: it is not a seed.
    """
    try:
        key: bytes = nkeys.from_seed(seed.encode()).public_key
    except nkeys.NkeysError as error:
        raise ValueError(f"not a valid seed: {error}") from None
    return key.decode()


SEED = "SEARCHBUS_NATS_NKEY_SEED"
STORE_SEED = "SEARCHBUS_NATS_STORE_NKEY_SEED"
ACTOR_PRIVATE = "SEARCHBUS_ACTOR_PRIVATE_KEY"
ACTOR_PUBLIC = "SEARCHBUS_ACTOR_PUBLIC_KEY"
STATE_KEY = "SEARCHBUS_STATE_KEY"
VAULT_KEY = "SEARCHBUS_ATTACH_VAULT_KEY"


def rotated(
    out: Path, services: Mapping[str, Service], *, add: Iterable[str], remove: Iterable[str]
) -> dict[Path, str]:
    """The new texts of files; nothing is written, so that a wrong name changes none of them.

    Args:
        out: the folder of `searchbus nats-config`.
        services: by name, everyone on the bus.
        add: names that get a second value beside the first, or the first one where there is none.
        remove: names that lose the old value.

    Raises:
        StackError: there is no such secret, or it has two values already, or one only.
    """
    found: dict[Path, tuple[str, ...]] = {}
    for name in add:
        for path, make in _files(out, name, services):
            values = _values(path)
            if len(values) > 1 and not _is_list(path):
                raise StackError(
                    f"{path} has two values already: `--retire {name}` removes the old one first."
                )
            found[path] = (*values, make())
    for name in remove:
        paths = [path for path, _ in _files(out, name, services)]
        if not any(len(_values(path)) > 1 for path in paths):
            raise StackError(
                f"{name} has one value only: `--rotate {name}` adds the new one first."
            )
        found |= {path: _values(path)[-1:] for path in paths}
    return {
        path: json.dumps(values) if _is_list(path) else "\n".join(values)
        for path, values in found.items()
    }


def _files(
    out: Path, name: str, services: Mapping[str, Service]
) -> Iterator[tuple[Path, Callable[[], str]]]:
    """The files of a name, each with what makes a new value of it."""
    if name in services:
        for variable in (SEED, STORE_SEED) if services[name].buckets else (SEED,):
            yield out / name / variable, new_seed
    elif name == "actor":
        yield signing_key(out, services), lambda: new_actor_keys()[0]
    elif name == "state" and "edge" in services:
        yield out / "edge" / STATE_KEY, partial(secrets.token_hex, 32)
    elif name == "vault" and "attach" in services:
        yield out / "attach" / VAULT_KEY, lambda: base64.b64encode(os.urandom(32)).decode()
    else:
        yield _given(out, name, services), partial(_asked, name)


def signing_key(out: Path, services: Mapping[str, Service]) -> Path:
    """The file of the key that signs callers. Its copies and the public keys are written from it,
    so that a run that is cut off leaves nothing that does not fit together."""
    files = [out / name / ACTOR_PRIVATE for name, one in services.items() if one.signs_callers]
    return next(filter(Path.exists, files), files[0])


def _given(out: Path, name: str, services: Mapping[str, Service]) -> Path:
    """The file of SERVICE/SETTING, a secret that another server issues."""
    service, _, setting = name.partition("/")
    known = listed_settings().get(service, {}).get(setting)
    if service not in services or known is None or not _is_list(Path(known.variable)):
        raise StackError(
            f"{name} is not a secret that can be rotated. Use the name of a service "
            f"({', '.join(services)}), actor, state, vault, or SERVICE/SETTING of a list of keys, "
            "e.g. web/brave_api_keys."
        )
    return out / service / known.variable


def _asked(name: str) -> str:
    if sys.stdin.isatty():
        value: str = typer.prompt(f"New value of {name}", hide_input=True, err=True)
    else:
        value = sys.stdin.readline()
    if not value.strip():
        raise StackError(f"The new value of {name} is empty. Give it on standard input.")
    return value.strip()


def _is_list(path: Path) -> bool:
    """Whether a file holds any number of keys, as JSON: those that other servers issue."""
    tables = listed_settings().values()
    lists = {
        one.variable for table in tables for one in table.values()
        if one.secret and one.kind.startswith("list")
    }  # fmt: skip
    return path.name in lists


def _values(path: Path) -> tuple[str, ...]:
    try:
        return values_of(path.read_text())
    except FileNotFoundError:
        return ()
    except ValueError as error:
        raise StackError(f"{path} {error}. Put it back from a copy, or delete it.") from None
