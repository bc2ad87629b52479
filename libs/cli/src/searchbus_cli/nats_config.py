"""`searchbus nats-config`: accounts, permissions and secrets for a NATS server of your own."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from searchbus_bus import new_actor_keys
from searchbus_contracts.services import Service
from searchbus_contracts.subjects import DEFAULT_PREFIX, inbox_prefix
from searchbus_runtime.files import write_atomically
from searchbus_runtime.services import DECLARATIONS, ServiceDeclarationError, bus_users

from .authority import SERVERS, write_certificates
from .errors import StackError
from .external_workers import declare_worker, external_workers, write_workers
from .output import err, fail
from .rotate import ACTOR_PRIVATE, ACTOR_PUBLIC, SEED, STATE_KEY, STORE_SEED, rotated
from .secure import accounts, authorization, new_seed, public_key, with_buckets

INBOX_PREFIX = "SEARCHBUS_NATS_INBOX_PREFIX"


def nats_config(
    out: Annotated[
        Path, typer.Option(help="Folder for nats/nats.conf and one folder of secrets per service.")
    ],
    prefix: Annotated[str, typer.Option(help="Prefix of the subjects.")] = DEFAULT_PREFIX,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate of the server.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    tls: Annotated[
        bool,
        typer.Option(
            help="Make an authority, once, and sign certificates of NATS, Qdrant and each service."
        ),
    ] = False,
    tls_name: Annotated[
        list[str] | None,
        typer.Option(help="A further name of these servers, e.g. nats.searchbus.svc."),
    ] = None,
    tls_verify: Annotated[
        bool, typer.Option(help="Let NATS demand a certificate of this authority from clients.")
    ] = False,
    kubernetes: Annotated[
        bool, typer.Option(help="Also write secrets.yaml, for `kubectl apply -f`.")
    ] = False,
    worker: Annotated[
        str, typer.Option(help="Admit a worker that is not of this installation, by its name.")
    ] = "",
    toolset: Annotated[list[str] | None, typer.Option(help="That it serves.")] = None,
    calls: Annotated[
        list[str] | None, typer.Option(help="Subjects it sends requests to: retrieval.search …")
    ] = None,
    remove_worker: Annotated[str, typer.Option(help="Admit this worker no more.")] = "",
    rotating: Annotated[
        list[str] | None,
        typer.Option(
            "--rotate",
            metavar="NAME",
            help="Add a second key beside the first: of a service, actor, state, vault, or "
            "SERVICE/SETTING. May be repeated.",
        ),
    ] = None,
    retiring: Annotated[
        list[str] | None,
        typer.Option("--retire", metavar="NAME", help="Remove the old key. May be repeated."),
    ] = None,
) -> None:
    """Write the NATS configuration: an nkey and a list of permissions for each service.

    The server denies what is not in a list. A service with buckets has a second nkey, for an
    account of its own that holds them. Each service has a folder of secrets, one file per
    variable; point its SEARCHBUS_SECRETS_DIR at that folder. Keys that exist are kept, so run it
    again after a service was added.

    A worker in another language is admitted by `--worker`, now and in later runs; what Compose and
    Kubernetes need of it is written beside nats.conf.

    Example: searchbus nats-config --out ./secrets
    """
    if (tls_cert is None) != (tls_key is None):
        raise fail("--tls-cert and --tls-key belong together.", 2)
    if (toolset or calls) and not worker:
        raise fail("--toolset and --calls belong to a --worker.", 2)
    services = _services()
    try:
        workers = external_workers(out)
        for name in filter(None, (worker, remove_worker)):
            workers.pop(name, None)
        if worker:
            others = {**services, **workers}
            workers[worker] = declare_worker(worker, toolset or (), calls or (), others)
        services |= workers
        changed = rotated(out, services, add=rotating or (), remove=retiring or ())
        for path, text in changed.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_secret(path, text)
        keys = _write_secrets(out, services)
        store_keys = {name: _own_key(out / name / STORE_SEED) for name in with_buckets(services)}
        (out / "nats").mkdir(exist_ok=True)
        text = "# Written by `searchbus nats-config`: accounts, users and their permissions.\n"
        text += 'max_payload: 1MB\nping_interval: "3s"\nping_max: 1\n'
        text += "jetstream { max_memory_store: 512MB, max_file_store: 256MB }\n"
        if tls:
            write_certificates(out, services, tls_name or ())
        if tls_cert is None and (out / "tls" / "ca.crt").exists():  # of this run or an earlier one
            own = (out / "nats").absolute()
            tls_cert, tls_key = own / "tls.crt", own / "tls.key"
        if tls_cert is not None:
            text += tls_block(tls_cert, tls_key, verify=tls_verify)
        text += authorization(keys, store_keys, services, prefix)
        write_atomically(out / "nats" / "nats.conf", text)
        if workers or remove_worker:
            write_workers(out, workers)
        if kubernetes:
            manifests = secret_manifests(out, keys, accounts(keys, store_keys, services, prefix))
            _write_secret(out / "secrets.yaml", manifests)
    except (StackError, ValueError) as error:
        raise fail(str(error), 2) from None
    except OSError as error:
        raise fail(
            f"--out {out} cannot be written ({error.strerror}). Choose a folder.", 2
        ) from None
    err.print(f"{out}: nats/nats.conf and the secrets of {len(keys)} services", highlight=False)


def tls_block(certificate: Path, key: Path | None, *, verify: bool) -> str:
    """The part of the server's configuration; the authority lies beside the certificate."""
    demand = f', ca_file: "{certificate.with_name("ca.crt")}", verify: true' if verify else ""
    return f'tls {{ cert_file: "{certificate}", key_file: "{key}"{demand} }}\n'


def _services() -> dict[str, Service]:
    """Every user of the bus by name."""
    try:
        return bus_users()
    except (ServiceDeclarationError, ImportError) as error:
        raise fail(str(error)) from None
    except (OSError, ValueError) as error:
        raise fail(f"{DECLARATIONS} names a file that cannot be read: {error}") from None


def _write_secrets(out: Path, services: Mapping[str, Service]) -> dict[str, str]:
    """One folder for each service; returns the public nkeys by name.

    Raises:
        OSError: a file cannot be written.
    """
    signers = [name for name, service in services.items() if service.signs_callers]
    private, public = _actor_keys(out, signers)
    keys = {}
    for name, service in services.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        keys[name] = _own_key(folder / SEED)
        _write_secret(folder / INBOX_PREFIX, inbox_prefix(name))
        _write_secret(folder / ACTOR_PUBLIC, public)
        if service.signs_callers:
            _write_secret(folder / ACTOR_PRIVATE, private)
    if (out / "edge").is_dir():
        # Several edges read each other's cursors and ids.
        _keep_secret(out / "edge" / STATE_KEY, secrets.token_hex(32))
    return keys


def _own_key(path: Path) -> str:
    """The public key of a file's seed, which is made where there is none; two while it is rotated,
    with a blank between them.
    """
    _keep_secret(path, new_seed())
    try:
        return " ".join(public_key(seed) for seed in path.read_text().split())
    except ValueError as error:
        raise fail(f"{path} is {error}. Delete it to make a new one.") from None


def _actor_keys(out: Path, signers: list[str]) -> tuple[str, str]:
    """The private and the public key of the Actor header; those of an earlier run are kept."""
    for name in signers:
        private, public = out / name / ACTOR_PRIVATE, out / name / ACTOR_PUBLIC
        if private.exists() and public.exists():
            return private.read_text(), public.read_text()
    return new_actor_keys()


def _write_secret(path: Path, text: str) -> None:
    write_atomically(path, text, mode=0o600)


def _keep_secret(path: Path, text: str) -> None:
    if not path.exists():
        _write_secret(path, text)


def secret_manifests(folder: Path, names: Iterable[str], accounts: Mapping[str, object]) -> str:
    """A Secret for each service, and one with the accounts for the NATS chart; YAML.

    Args:
        folder: with one folder of secrets for each name.
        names: of the services.
        accounts: of the NATS server.
    """
    contents = {
        f"searchbus-{name}": {path.name: path.read_text() for path in (folder / name).iterdir()}
        for name in names
    }
    for server in SERVERS:
        if (folder / server / "tls.crt").exists():
            files = ("ca.crt", "tls.crt", "tls.key")
            contents[f"{server}-tls"] = {n: (folder / server / n).read_text() for n in files}
    # The file that the chart's configuration includes; see deploy/k8s/charts/nats.yaml.
    contents["nats-users"] = {"auth.conf": json.dumps(accounts, indent=1)}
    # JSON is YAML.
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
