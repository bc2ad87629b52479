"""What `searchbus nats-config` writes: the users of a NATS server, their permissions and secrets.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from searchbus_bus import new_actor_keys, public_actor_key
from searchbus_contracts.services import Service
from searchbus_contracts.subjects import DEFAULT_PREFIX, inbox_prefix, is_token
from searchbus_runtime.files import write_atomically

from . import loans
from .authority import SERVERS, tls_block, write_certificates
from .errors import StackError
from .external_workers import check_removed, declare_worker, external_workers, write_workers
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
    rotated,
    signing_key,
    with_buckets,
)

INBOX_PREFIX = "SEARCHBUS_NATS_INBOX_PREFIX"
SUBJECT_PREFIX = "SEARCHBUS_SUBJECT_PREFIX"
_TENANTS = Path("nats") / "tenants.json"
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_SERVER = """# Written by `searchbus nats-config`: accounts, users and their permissions.
max_payload: 1MB
ping_interval: "3s"
ping_max: 1
jetstream { max_memory_store: 512MB, max_file_store: 256MB }
"""


@dataclass
class Installation:
    """The users of one NATS server. Changes are checked at once; the methods `write_…` write them.

    All raise StackError or ValueError for what cannot be, with the option and the remedy, and
    OSError for a file that cannot be read or written.

    Args:
        out: the folder of the configuration and of all secrets.
        declared: the services of the installation itself, and of each tenant.
        prefixes: of the subjects, by tenant; the installation itself has the empty name.
        workers: that others wrote, on the bus of the installation itself.
        loans: toolsets that one tenant lends to another.
    """

    out: Path
    declared: Mapping[str, Service]
    prefixes: dict[str, str]
    workers: dict[str, Service]
    loans: list[loans.Lent]

    @classmethod
    def read(cls, out: Path, declared: Mapping[str, Service], *, leaving: str = "") -> Installation:
        """What earlier runs admitted, without the tenant who is leaving."""
        found = {"": DEFAULT_PREFIX, **_read_tenants(out)}
        check_removed("--remove-tenant", leaving, found)
        prefixes = {name: prefix for name, prefix in found.items() if not name or name != leaving}
        known = loans.read_loans(out, prefixes, leaving)
        return cls(out, declared, prefixes, external_workers(out), known)

    @property
    def tenants(self) -> list[str]:
        """Their names, without that of the installation itself."""
        return [name for name in self.prefixes if name]

    def users(self, tenant: str) -> dict[str, Service]:
        """Everyone on a tenant's bus, by name."""
        workers = {} if tenant else self.workers
        return {**self.declared, **workers, **loans.workers(self.loans, tenant)}

    def admit(self, tenant: str, prefix: str) -> None:
        """Admit a tenant, or the installation itself, whose prefix stays where none is given."""
        if tenant:
            if not _NAME.fullmatch(tenant):
                raise StackError(
                    f"--tenant {tenant}: use up to 32 lower-case letters, digits and hyphens."
                )
            prefix = prefix or self.prefixes.get(tenant) or tenant
        prefix = prefix or self.prefixes[""]
        if not is_token(prefix):
            raise StackError(f"--prefix {prefix}: use 1 to 64 letters, digits, - and _.")
        for other, taken in self.prefixes.items():
            if other != tenant and taken == prefix:
                whose = f"the tenant {other}" if other else "the installation itself"
                raise StackError(f"--prefix {prefix} belongs to {whose}. Use another one.")
        self.prefixes[tenant] = prefix
        own = self.prefixes[""]
        if own in self.prefixes:  # by which it borrows
            raise StackError(f"{own} names the installation itself. Use another name.")

    def admit_worker(self, name: str, toolsets: Sequence[str], calls: Sequence[str]) -> None:
        """Admit a worker that others wrote, or declare it anew."""
        self.workers.pop(name, None)
        self.workers[name] = declare_worker(name, toolsets, calls, self.users(""))

    def remove_worker(self, name: str) -> None:
        """Admit a worker no more; with an empty name nothing."""
        check_removed("--remove-worker", name, self.workers)
        self.workers.pop(name, None)

    def change_loans(
        self, lender: str, borrower: str, lend: Sequence[str], withdraw: Sequence[str], name: str
    ) -> None:
        """Lend toolsets, and withdraw others; `name` is the borrower's for the one that is lent."""
        own = {tenant: self.declared for tenant in self.prefixes}
        own[""] = {**self.declared, **self.workers}
        self.loans = loans.changed(
            self.loans, lender, borrower, own, lend=lend, withdraw=withdraw, name=name
        )

    def rotate(self, tenant: str, add: Sequence[str], remove: Sequence[str]) -> None:
        """Write second keys, and remove old ones; a wrong name changes none."""
        folder = tenant_folder(self.out, tenant)
        for path, text in rotated(folder, self.users(tenant), add=add, remove=remove).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_secret(path, text)

    def write_certificates(self, names: Sequence[str]) -> None:
        """Sign those of the servers and of each service; see `authority.write_certificates`."""
        clients = [f"tenants/{tenant}/{name}" for tenant in self.tenants for name in self.declared]
        write_certificates(self.out, [*self.declared, *self.workers, *clients], names)

    @property
    def certificate(self) -> tuple[Path, Path] | None:
        """The server's and its key, of this run or an earlier one."""
        folder = (self.out / "nats").absolute()
        signed = (self.out / "tls" / "ca.crt").exists()
        return (folder / "tls.crt", folder / "tls.key") if signed else None

    def write_configuration(
        self, certificate: tuple[Path, Path] | None, *, verify: bool
    ) -> dict[str, dict[str, object]]:
        """Write all secrets, the server's file, and what later runs read; returns its accounts."""
        found = self._accounts("")
        for tenant in self.tenants:
            found |= self._accounts(tenant)
        (self.out / "nats").mkdir(exist_ok=True)
        folders = {tenant: tenant_folder(self.out, tenant) for tenant in self.prefixes}
        loans.write_loans(self.out, self.loans, self.prefixes, folders)
        tls = "" if certificate is None else tls_block(*certificate, verify=verify)
        text = _SERVER + tls + authorization(found)
        write_atomically(self.out / "nats" / "nats.conf", text)
        if self.prefixes != {"": DEFAULT_PREFIX} or (self.out / _TENANTS).exists():
            write_atomically(self.out / _TENANTS, json.dumps(self.prefixes))
        write_workers(self.out, self.workers)
        return found

    def write_manifests(self, found: Mapping[str, object]) -> None:
        """Write the Secrets of Kubernetes; those of the installation itself have the accounts."""
        for tenant in self.prefixes:
            folder = tenant_folder(self.out, tenant)
            names = self.declared if tenant else [*self.declared, *self.workers]
            manifests = secret_manifests(folder, names, None if tenant else found)
            _write_secret(folder / "secrets.yaml", manifests)

    def _accounts(self, tenant: str) -> dict[str, dict[str, object]]:
        """The accounts of one tenant, whose secrets are written."""
        folder, services = tenant_folder(self.out, tenant), self.users(tenant)
        keys = _write_secrets(folder, services)
        store_keys = {name: _own_key(folder / name / STORE_SEED) for name in with_buckets(services)}
        for name in services if tenant else ():
            _write_secret(folder / name / SUBJECT_PREFIX, self.prefixes[tenant])
        return accounts(keys, store_keys, services, self.prefixes[tenant], tenant)


def tenant_folder(out: Path, name: str) -> Path:
    """The folder of a tenant's secrets; the installation itself has the empty name."""
    return out / "tenants" / name if name else out


def _read_tenants(out: Path) -> dict[str, str]:
    """Name → prefix of admitted tenants and of the installation itself; raises OSError, StackError
    (damaged)."""
    try:
        return msgspec.json.decode((out / _TENANTS).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, ValueError) as error:
        raise StackError(
            f"{out / _TENANTS} is damaged ({error}). Put it back from a copy, or delete it and "
            "admit its tenants again: their secrets are kept."
        ) from None


def _write_secrets(out: Path, services: Mapping[str, Service]) -> dict[str, str]:
    """One folder for each service; returns the public nkeys by name.

    Raises:
        OSError: a file cannot be written.
    """
    private, public = _actor_keys(signing_key(out, services))
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
        raise StackError(f"{path} is {error}. Delete it to make a new one.") from None


def _actor_keys(path: Path) -> tuple[str, str]:
    """The private and the public key of the Actor header; that of an earlier run is kept."""
    if not path.exists():
        return new_actor_keys()
    private = path.read_text()
    try:
        return private, "\n".join(map(public_actor_key, private.split() or [""]))
    except ValueError:
        raise StackError(f"{path} has no key that signs. Put it back from a copy.") from None


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
        folder: with one folder of secrets for each name of a service.
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
    manifests = (
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "searchbus"}},
            "type": "Opaque",
            "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
        }
        for name, data in contents.items()
    )
    # JSON is YAML.
    return "".join(f"---\n{json.dumps(manifest, indent=1)}\n" for manifest in manifests)
