"""`searchbus nats-config`: accounts, permissions and secrets for a NATS server of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from searchbus_contracts.services import Service
from searchbus_contracts.subjects import DEFAULT_PREFIX
from searchbus_runtime.services import DECLARATIONS, ServiceDeclarationError, bus_users

from .errors import StackError
from .installation import Installation, tenant_folder
from .output import err, fail


def nats_config(
    out: Annotated[
        Path, typer.Option(help="Folder for nats/nats.conf and one folder of secrets per service.")
    ],
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
    declared = _services()
    try:
        installation = Installation.read(out, declared, leaving=remove_tenant)
        installation.admit(tenant, prefix)
        installation.remove_worker(remove_worker)
        if worker:
            installation.admit_worker(worker, toolset or (), calls or ())
        installation.change_loans(tenant, borrower, lending or (), withdrawing or (), lent_as)
        if tls:
            installation.write_certificates(tls_name or ())
        installation.rotate(tenant, rotating or (), retiring or ())
        certificate = (tls_cert, tls_key) if tls_cert and tls_key else installation.certificate
        accounts = installation.write_configuration(certificate, verify=tls_verify)
        if kubernetes:
            installation.write_manifests(accounts)
    except (StackError, ValueError) as error:
        raise fail(str(error), 2) from None
    except OSError as error:
        raise fail(
            f"--out {out} cannot be written ({error.strerror}). Choose a folder.", 2
        ) from None
    count = len(declared) + len(installation.workers)
    err.print(f"{out}: nats/nats.conf and the secrets of {count} services", highlight=False)
    for name in installation.tenants:
        err.print(f"{tenant_folder(out, name)}: those of the tenant {name}", highlight=False)


def _services() -> dict[str, Service]:
    """Every user of the bus by name."""
    try:
        return bus_users()
    except (ServiceDeclarationError, ImportError) as error:
        raise fail(str(error)) from None
    except (OSError, ValueError) as error:
        raise fail(f"{DECLARATIONS} names a file that cannot be read: {error}") from None
