"""`searchbus nats-config`: accounts, permissions and secrets for a NATS server of your own.

Tenants are installations that share the server, each in accounts and with a prefix of its own. They
are kept beside its configuration, so that each later run admits them again:

    nats/tenants.json            name → prefix; the installation itself has the empty name
    tenants/<name>/<service>/    the secrets of each service, its prefix among them

Accounts of NATS are separate sets of subjects: a tenant receives nothing of another one, whatever
its keys may publish and subscribe to.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from searchbus_bus import new_actor_keys
from searchbus_contracts.services import Service
from searchbus_contracts.subjects import DEFAULT_PREFIX, inbox_prefix, is_token
from searchbus_runtime.files import write_atomically
from searchbus_runtime.services import DECLARATIONS, ServiceDeclarationError, bus_users

from .authority import SERVERS, tls_block, write_certificates
from .errors import StackError
from .external_workers import check_removed, declare_worker, external_workers, write_workers
from .loans import changed as changed_loans
from .loans import read_loans, write_loans
from .loans import workers as lenders
from .output import err, fail
from .secure import (
    ACTOR_PRIVATE,
    ACTOR_PUBLIC,
    SEED,
    STATE_KEY,
    STORE_SEED,
    accounts,
    authorization,
    new_seed,
    public_keys,
    rotate_stack,
    rotated,
    with_buckets,
)

INBOX_PREFIX = "SEARCHBUS_NATS_INBOX_PREFIX"
SUBJECT_PREFIX = "SEARCHBUS_SUBJECT_PREFIX"


def nats_config(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for nats/nats.conf and one folder of secrets per service."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="In place of --out the data folder of `searchbus up --secure`; for --rotate and "
            "--retire."
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Prefix of the subjects.", show_default=DEFAULT_PREFIX)
    ] = "",
    tenant: Annotated[
        str,
        typer.Option(
            help="Make, or rotate, the secrets of a tenant: a bus of its own; see --prefix."
        ),
    ] = "",
    remove_tenant: Annotated[str, typer.Option(help="Admit this tenant no more.")] = "",
    lending: Annotated[
        list[str] | None,
        typer.Option("--lend", metavar="TOOLSET", help="Lend a toolset of --tenant to --to."),
    ] = None,
    withdrawing: Annotated[
        list[str] | None,
        typer.Option("--withdraw", metavar="TOOLSET", help="Lend it to --to no more."),
    ] = None,
    borrower: Annotated[
        str, typer.Option("--to", help="The tenant. Without --to the installation itself.")
    ] = "",
    lent_as: Annotated[
        str, typer.Option("--as", help="Its name there, where it has or attaches one of this name.")
    ] = "",
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
    Kubernetes need of it is written beside nats.conf. A tenant is another installation on the same
    server, in accounts of its own; its secrets are in tenants/NAME. It can lend toolsets to others:
    `--tenant NAME --lend TOOLSET --to OTHER`.

    Example: searchbus nats-config --out ./secrets
    """
    if data is not None:
        if out is not None or not (rotating or retiring):
            raise fail("--data takes --rotate and --retire, and stands in place of --out.", 2)
        try:
            rotate_stack(data, add=rotating or (), remove=retiring or ())
        except StackError as error:
            raise fail(str(error), 2) from None
        except OSError as error:
            raise fail(f"{data}: its keys cannot be changed ({error.strerror}).", 2) from None
        err.print(f"{data}: the stack reads its keys again within a second", highlight=False)
        return
    if out is None:
        raise fail("--out is missing. Name the folder for the configuration and the secrets.", 2)
    if (tls_cert is None) != (tls_key is None):
        raise fail("--tls-cert and --tls-key belong together.", 2)
    if tls_verify and not (tls or tls_cert or (out / "tls" / "ca.crt").exists()):
        raise fail("--tls-verify needs certificates: give --tls or --tls-cert, too.", 2)
    if (toolset or calls) and not worker:
        raise fail("--toolset and --calls belong to a --worker.", 2)
    if tenant and (worker or remove_worker):
        raise fail("--worker admits to the bus of the installation itself, not of a --tenant.", 2)
    if (borrower or lent_as) and not (lending or withdrawing):
        raise fail("--to and --as belong to --lend or --withdraw.", 2)
    if prefix and not is_token(prefix):
        raise fail(f"--prefix {prefix}: use 1 to 64 letters, digits, - and _.", 2)
    services = _services()
    try:
        tenants = read_tenants(out)
        check_removed("--remove-tenant", remove_tenant, tenants)
        own_prefix = tenants.pop("", DEFAULT_PREFIX) if tenant or not prefix else prefix
        tenants = {name: p for name, p in tenants.items() if name not in ("", remove_tenant)}
        if tenant:
            tenants = with_tenant(tenants, tenant, prefix, own_prefix)
        declared = dict(services)  # of each tenant
        workers = external_workers(out)
        check_removed("--remove-worker", remove_worker, workers)
        for name in filter(None, (worker, remove_worker)):
            workers.pop(name, None)
        prefixes = {"": own_prefix, **tenants}
        loans = read_loans(out, prefixes, remove_tenant)
        if worker:
            others = {**services, **workers, **lenders(loans, "")}
            workers[worker] = declare_worker(worker, toolset or (), calls or (), others)
        services |= workers
        loans = changed_loans(
            loans, tenant, borrower, {"": services, **dict.fromkeys(tenants, declared)},
            lend=lending or (), withdraw=withdrawing or (), name=lent_as,
        )  # fmt: skip
        home = tenant_folder(out, tenant)
        holders = (declared if tenant else services) | lenders(loans, tenant)
        changed = rotated(home, holders, add=rotating or (), remove=retiring or ())
        for path, text in changed.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_secret(path, text)
        found = _accounts(out, services | lenders(loans, ""), own_prefix)
        for name, its_prefix in tenants.items():
            users = declared | lenders(loans, name)
            found |= _accounts(tenant_folder(out, name), users, its_prefix, name)
        (out / "nats").mkdir(exist_ok=True)
        if tenants or remove_tenant:
            folders = {name: tenant_folder(out, name) for name in prefixes}
            write_loans(out, loans, prefixes, folders)
        text = "# Written by `searchbus nats-config`: accounts, users and their permissions.\n"
        text += 'max_payload: 1MB\nping_interval: "3s"\nping_max: 1\n'
        text += "jetstream { max_memory_store: 512MB, max_file_store: 256MB }\n"
        if tls:
            clients = [f"tenants/{one}/{name}" for one in tenants for name in declared]
            write_certificates(out, [*services, *clients], tls_name or ())
        if tls_cert is None and (out / "tls" / "ca.crt").exists():  # of this run or an earlier one
            beside = (out / "nats").absolute()
            tls_cert, tls_key = beside / "tls.crt", beside / "tls.key"
        if tls_cert is not None:
            text += tls_block(tls_cert, tls_key, verify=tls_verify)
        text += authorization(found)
        write_atomically(out / "nats" / "nats.conf", text)
        if tenants or remove_tenant or own_prefix != DEFAULT_PREFIX:
            write_atomically(out / TENANTS, json.dumps({"": own_prefix, **tenants}))
        if workers or remove_worker:
            write_workers(out, workers)
        if kubernetes:
            _write_secret(out / "secrets.yaml", secret_manifests(out, services, found))
            for name in tenants:
                own_folder = tenant_folder(out, name)
                manifests = secret_manifests(own_folder, declared)
                _write_secret(own_folder / "secrets.yaml", manifests)
    except (StackError, ValueError) as error:
        raise fail(str(error), 2) from None
    except OSError as error:
        raise fail(
            f"--out {out} cannot be written ({error.strerror}). Choose a folder.", 2
        ) from None
    err.print(f"{out}: nats/nats.conf and the secrets of {len(services)} services", highlight=False)
    for name in tenants:
        err.print(f"{tenant_folder(out, name)}: those of the tenant {name}", highlight=False)


def _accounts(
    folder: Path, services: Mapping[str, Service], prefix: str, tenant: str = ""
) -> dict[str, dict[str, object]]:
    """The accounts of one installation, whose secrets are written."""
    keys = _write_secrets(folder, services)
    store_keys = {name: _own_key(folder / name / STORE_SEED) for name in with_buckets(services)}
    for name in services if tenant else ():
        _write_secret(folder / name / SUBJECT_PREFIX, prefix)
    return accounts(keys, store_keys, services, prefix, tenant)


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
        return public_keys(path.read_text())
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


def secret_manifests(
    folder: Path, names: Iterable[str], accounts: Mapping[str, object] | None = None
) -> str:
    """A Secret for each service, and one with the accounts for the NATS chart; YAML.

    Args:
        folder: with one folder of secrets for each name.
        names: of the services.
        accounts: of the NATS server; `None` for a tenant, who has none.
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
    if accounts is not None:
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


TENANTS = Path("nats") / "tenants.json"
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")


def tenant_folder(out: Path, name: str) -> Path:
    """The folder of a tenant's secrets; the installation itself has the empty name."""
    return out / "tenants" / name if name else out


def read_tenants(out: Path) -> dict[str, str]:
    """Name → prefix of admitted tenants and of the installation itself; raises OSError, StackError
    (damaged)."""
    try:
        return msgspec.json.decode((out / TENANTS).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, ValueError) as error:
        raise StackError(
            f"{out / TENANTS} is damaged ({error}). Put it back from a copy, or delete it and "
            "admit its tenants again: their secrets are kept."
        ) from None


def with_tenant(known: dict[str, str], name: str, prefix: str, own: str) -> dict[str, str]:
    """The tenants and one more.

    Args:
        prefix: of its subjects; empty for the one that it has, or for its name.
        own: the prefix of the installation itself.

    Raises:
        StackError: the name cannot be used, or the prefix is taken.
    """
    if not _NAME.fullmatch(name):
        raise StackError(f"--tenant {name}: use up to 32 lower-case letters, digits and hyphens.")
    prefix = prefix or known.get(name) or name
    taken = {own: "the installation itself"} | {
        other: f"the tenant {one}" for one, other in known.items() if one != name
    }
    if prefix in taken:
        raise StackError(f"--prefix {prefix} belongs to {taken[prefix]}. Use another one.")
    return {**known, name: prefix}
