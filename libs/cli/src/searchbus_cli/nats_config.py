"""`searchbus nats-config`: a NATS server that lets each service do its part and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import nkeys
import typer

from searchbus_contracts.permissions import SERVICES, publishes, subscribes
from searchbus_contracts.subjects import DEFAULT_PREFIX

from .output import err, fail

__all__ = ["authorization", "nats_config", "new_seed", "public_key", "write_secret"]


def nats_config(
    out: Annotated[Path, typer.Option(help="Folder for nats.conf and a seed for each service.")],
    prefix: Annotated[str, typer.Option(help="Prefix of the subjects.")] = DEFAULT_PREFIX,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate of the server.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
) -> None:
    """Write the NATS configuration: an nkey and a list of permissions for each service.

    The server denies what is not in a list. Give each service its seed as SEARCHBUS_NATS_NKEY_SEED
    and SEARCHBUS_NATS_INBOX_PREFIX=_INBOX_<service>.

    Example: searchbus nats-config --out ./nats
    """
    if (tls_cert is None) != (tls_key is None):
        raise fail("--tls-cert and --tls-key belong together.", 2)
    out.mkdir(parents=True, exist_ok=True)
    seeds = {}
    for service in SERVICES:
        path = out / f"{service}.seed"
        if not path.exists():
            write_secret(path, new_seed())
        seeds[service] = path.read_text().strip()
    text = "# Written by `searchbus nats-config`; users and what they may do.\n"
    text += 'max_payload: 1MB\nping_interval: "5s"\nping_max: 2\n'
    text += "jetstream { max_memory_store: 128MB, max_file_store: 1MB }\n"
    if tls_cert is not None and tls_key is not None:
        text += f'tls {{ cert_file: "{tls_cert}", key_file: "{tls_key}" }}\n'
    text += authorization({name: public_key(seed) for name, seed in seeds.items()}, prefix)
    (out / "nats.conf").write_text(text)
    err.print(f"{out / 'nats.conf'} and {len(seeds)} seeds are written", highlight=False)


def authorization(public_keys: Mapping[str, str], prefix: str = DEFAULT_PREFIX) -> str:
    """The `authorization` block: service → nkey, with its permissions."""
    users = []
    for service, key in public_keys.items():
        permissions = {
            "publish": {"allow": publishes(service, prefix)},
            "subscribe": {"allow": subscribes(service, prefix)},
            # A reply may be many messages, and callers answer who pulls a request's parts.
            "allow_responses": {"max": 100_000, "expires": "10m"},
        }
        users.append({"nkey": key, "permissions": permissions})
    # JSON is a form of NATS's configuration language.
    return f"authorization: {json.dumps({'users': users}, indent=1)}\n"


def new_seed() -> str:
    """The seed of a fresh user nkey."""
    seed: bytes = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return seed.decode()


def public_key(seed: str) -> str:
    """The public nkey of a seed."""
    key: bytes = nkeys.from_seed(seed.encode()).public_key
    return key.decode()


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
