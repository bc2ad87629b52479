"""`searchbus nats-config --rotate NAME` and `--retire NAME`: a key is replaced while it is in use.

A file of secrets holds one value, and two while the value is replaced: the old one, then the new
one. Services read their files again; see `searchbus_runtime.secret`. NAME is a service (its keys at
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
import typer

from searchbus_bus import new_actor_keys
from searchbus_contracts.services import Service
from searchbus_runtime.files import locked, write_atomically
from searchbus_runtime.secret import STACK_KEYS, values_of
from searchbus_runtime.setting_list import listed_settings

from .errors import StackError
from .secure import new_seed, read_keys

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


def rotate_stack(data: Path, *, add: Iterable[str], remove: Iterable[str]) -> None:
    """Change the keys of a secured stack, which follows them; a wrong name changes none.

    Args:
        data: its data folder.
        add, remove: names of services, or `actor`; as of `rotated`.

    Raises:
        StackError: as of `rotated`, or there are no keys, or they are damaged.
        OSError: the file cannot be written.
    """
    path = data / STACK_KEYS
    if not path.is_file():
        raise StackError(f"{data} has no keys: no stack with --secure ran on it.")
    with locked(path):
        keys = read_keys(path)
        assert keys is not None  # they are replaced, never removed
        private, public = new_actor_keys()
        for names, changed in ((add, _with), (remove, _without)):
            for name in names:
                if name == "actor":
                    keys.actor_private = changed(name, keys.actor_private, private)
                    keys.actor_public = changed(name, keys.actor_public, public)
                elif name not in keys.seeds:
                    raise StackError(
                        f"{name} is not a key of this stack. It has {', '.join(keys.seeds)}, actor."
                    )
                else:
                    for seeds in (keys.seeds, keys.store_seeds):
                        if name in seeds:
                            seeds[name] = changed(name, seeds[name], new_seed())
        write_atomically(path, msgspec.json.encode(keys), mode=0o600)


def _with(name: str, values: str, new: str) -> str:
    if len(values.split()) > 1:
        raise StackError(
            f"{name} has two keys already: `--retire {name}` removes the old one first."
        )
    return f"{values} {new}"


def _without(name: str, values: str, _: str) -> str:
    if len(values.split()) < 2:
        raise StackError(f"{name} has one key only: `--rotate {name}` adds the new one first.")
    return values.split()[-1]


def _files(
    out: Path, name: str, services: Mapping[str, Service]
) -> Iterator[tuple[Path, Callable[[], str]]]:
    """The files of a name, each with what makes a new value of it."""
    if name in services:
        for variable in (SEED, STORE_SEED) if services[name].buckets else (SEED,):
            yield out / name / variable, new_seed
    elif name == "actor":
        private, public = new_actor_keys()
        for service in services.values():
            yield out / service.name / ACTOR_PUBLIC, lambda: public
            if service.signs_callers:
                yield out / service.name / ACTOR_PRIVATE, lambda: private
    elif name == "state" and "edge" in services:
        yield out / "edge" / STATE_KEY, partial(secrets.token_hex, 32)
    elif name == "vault" and "attach" in services:
        yield out / "attach" / VAULT_KEY, lambda: base64.b64encode(os.urandom(32)).decode()
    else:
        yield _given(out, name, services), partial(_asked, name)


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
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    value: str = typer.prompt(f"New value of {name}", hide_input=True, err=True)
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
