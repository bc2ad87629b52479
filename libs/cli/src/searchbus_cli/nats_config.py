"""`searchbus nats-config`: a NATS server that lets each service do its part and nothing else."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import nkeys
import typer

from searchbus_bus import new_actor_keys
from searchbus_contracts.permissions import inbox_prefix, publishes, subscribes
from searchbus_contracts.services import Service
from searchbus_contracts.subjects import DEFAULT_PREFIX
from searchbus_runtime.services import bus_users

from .output import err, fail

__all__ = ["authorization", "nats_config", "new_seed", "public_key", "write_secret"]

SEED = "SEARCHBUS_NATS_NKEY_SEED"
ACTOR_PRIVATE = "SEARCHBUS_ACTOR_PRIVATE_KEY"
ACTOR_PUBLIC = "SEARCHBUS_ACTOR_PUBLIC_KEY"
STATE_KEY = "SEARCHBUS_STATE_KEY"


def nats_config(
    out: Annotated[
        Path, typer.Option(help="Folder for nats/nats.conf and a folder of secrets a service.")
    ],
    prefix: Annotated[str, typer.Option(help="Prefix of the subjects.")] = DEFAULT_PREFIX,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate of the server.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    kubernetes: Annotated[
        bool, typer.Option(help="Also write secrets.yaml, for `kubectl apply -f`.")
    ] = False,
) -> None:
    """Write the NATS configuration: an nkey and a list of permissions for each service.

    The server denies what is not in a list. A service's folder holds its secrets, a file named like
    the variable each; point SEARCHBUS_SECRETS_DIR at it. Files that exist are kept.

    Example: searchbus nats-config --out ./secrets
    """
    if (tls_cert is None) != (tls_key is None):
        raise fail("--tls-cert and --tls-key belong together.", 2)
    try:
        keys = _write_service_secrets(out)
        (out / "nats").mkdir(exist_ok=True)
    except OSError as error:
        raise fail(
            f"--out {out} cannot be written ({error.strerror}). Choose a folder.", 2
        ) from None
    text = "# Written by `searchbus nats-config`; users and what they may do.\n"
    text += 'max_payload: 1MB\nping_interval: "5s"\nping_max: 2\n'
    text += "jetstream { max_memory_store: 512MB, max_file_store: 1MB }\n"
    if tls_cert is not None and tls_key is not None:
        text += f'tls {{ cert_file: "{tls_cert}", key_file: "{tls_key}" }}\n'
    text += authorization(keys, bus_users(), prefix)
    (out / "nats" / "nats.conf").write_text(text)
    if kubernetes:
        write_secret(out / "secrets.yaml", _manifests(out, prefix, keys))
    err.print(f"{out}: nats/nats.conf and the secrets of {len(keys)} services", highlight=False)


def authorization(
    public_keys: Mapping[str, str], services: Mapping[str, Service], prefix: str = DEFAULT_PREFIX
) -> str:
    """The `authorization` block: each service's nkey with its permissions.

    Args:
        public_keys, services: by the service's name.
    """
    # JSON is a form of NATS's configuration language.
    users = _users(public_keys, services, prefix)
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


def _users(
    public_keys: Mapping[str, str], services: Mapping[str, Service], prefix: str
) -> list[dict[str, object]]:
    return [
        {
            "nkey": key,
            "permissions": {
                "publish": {"allow": publishes(services[name], services.values(), prefix)},
                "subscribe": {"allow": subscribes(services[name], prefix)},
                # A reply may be many messages, and callers answer who pulls a request's parts.
                "allow_responses": {"max": 100_000, "expires": "10m"},
            },
        }
        for name, key in public_keys.items()
    ]


def _write_service_secrets(out: Path) -> dict[str, str]:
    """One folder a service; returns the public nkeys."""
    signing = out / "edge" / ACTOR_PRIVATE
    verifying = out / "edge" / ACTOR_PUBLIC
    if signing.exists() and verifying.exists():
        private, public = signing.read_text(), verifying.read_text()
    else:
        private, public = new_actor_keys()
    keys = {}
    for service, declared in bus_users().items():
        folder = out / service
        folder.mkdir(parents=True, exist_ok=True)
        _keep(folder / SEED, new_seed())
        keys[service] = public_key((folder / SEED).read_text())
        write_secret(folder / "SEARCHBUS_NATS_INBOX_PREFIX", inbox_prefix(service))
        write_secret(folder / ACTOR_PUBLIC, public)
        if declared.signs_callers:
            write_secret(folder / ACTOR_PRIVATE, private)
    # Several edges read each other's cursors and ids.
    _keep(out / "edge" / STATE_KEY, secrets.token_hex(32))
    return keys


def _keep(path: Path, text: str) -> None:
    if not path.exists():
        write_secret(path, text)


def _manifests(out: Path, prefix: str, keys: Mapping[str, str]) -> str:
    """A Secret for each service, and the users for the NATS chart (JSON is YAML)."""
    contents = {
        f"searchbus-{service}": {path.name: path.read_text() for path in (out / service).iterdir()}
        for service in keys
    }
    # The file that the chart's configuration includes; see deploy/k8s/charts/nats.yaml.
    contents["nats-users"] = {
        "auth.conf": json.dumps({"users": _users(keys, bus_users(), prefix)}, indent=1)
    }
    return "".join(
        "---\n" + json.dumps(_secret(name, data), indent=1) + "\n"
        for name, data in contents.items()
    )


def _secret(name: str, data: Mapping[str, str]) -> dict[str, object]:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "searchbus"}},
        "type": "Opaque",
        "data": encoded,
    }
