"""`searchbus nats-config --lend` and `--withdraw`: toolsets that one tenant lends to another.

The lender's edge gets a user in the borrower's account, whose permissions are those of a worker
with the lent toolsets, and no more:

    nats/loans.json                    who lends what to whom; each later run admits it again
    <borrower>/loan-<lender>/          the keys of that user, made as those of any service
    <lender>/edge/SEARCHBUS_LOANS      the same for the lender's edge, which follows the file

A toolset that is withdrawn is in that file no more, and the lender's edge then tells the
borrower's edges that its tools are gone. It needs its permissions for that: the next run removes
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from searchbus_contracts.catalog import RESERVED_TOOLSETS
from searchbus_contracts.services import Service, toolset_owners
from searchbus_contracts.subjects import inbox_prefix
from searchbus_runtime.files import write_atomically
from searchbus_runtime.loans import NONE, Loan
from searchbus_runtime.secret import values_of

from .errors import StackError
from .external_workers import check_toolset
from .secure import ACTOR_PUBLIC, SEED

_FILE = Path("nats") / "loans.json"
LOANS = "SEARCHBUS_LOANS"


class Lent(Struct, frozen=True, kw_only=True):
    """What one tenant lends to another; the installation itself has the empty name.

    Args:
        toolsets: their names for the borrower → for the lender.
        withdrawn: names for the borrower, of this run.
    """

    lender: str
    borrower: str
    toolsets: dict[str, str] = {}
    withdrawn: tuple[str, ...] = ()

    @property
    def service(self) -> Service:
        """The lender's worker on the borrower's bus."""
        name = f"loan-{self.lender}" if self.lender else "loan"
        return Service(name=name, toolsets=(*self.toolsets, *self.withdrawn))


def read_loans(out: Path, tenants: Collection[str]) -> list[Lent]:
    """The loans of earlier runs between these tenants, without what these runs withdrew.

    Raises:
        OSError: the file cannot be read.
        StackError: it is damaged.
    """
    try:
        found = msgspec.json.decode((out / _FILE).read_bytes(), type=list[Lent])
    except FileNotFoundError:
        return []
    except (msgspec.MsgspecError, ValueError) as error:
        raise StackError(
            f"{out / _FILE} is damaged ({error}). Put it back from a copy, or delete it and lend "
            "its toolsets again."
        ) from None
    return [
        replace(lent, withdrawn=())
        for lent in found
        if lent.toolsets and {lent.lender, lent.borrower} <= {*tenants}
    ]


def changed(
    known: Sequence[Lent], lender: str, borrower: str,
    services: Mapping[str, Mapping[str, Service]],
    *, lend: Sequence[str], withdraw: Sequence[str], name: str = "",
) -> list[Lent]:  # fmt: skip
    """The loans, with further toolsets and without others.

    Args:
        services: on the bus of each tenant, by its name.
        lend, withdraw: toolsets of the lender.
        name: what the borrower calls the one that is lent; empty for the same.

    Raises:
        ValueError: a name cannot be used, or is taken, or nothing of the kind is lent.
    """
    if not (lend or withdraw):
        return [*known]
    if borrower not in services:
        raise ValueError(f"--to {borrower}: there is no such tenant. Make it by --tenant.")
    others = services[borrower]
    if lender == borrower:
        raise ValueError("--lend needs two tenants: name the other one by --to or --tenant.")
    if name and len(lend) != 1:
        raise ValueError("--as belongs to one --lend. Use it for one toolset at a time.")
    rest = [one for one in known if (one.lender, one.borrower) != (lender, borrower)]
    found = [one for one in known if one not in rest]
    lent = found[0] if found else Lent(lender=lender, borrower=borrower)
    if lent.service.name in others:
        raise ValueError(f"{lent.service.name} is a worker of the borrower. Give it another name.")
    owners = {**RESERVED_TOOLSETS, **toolset_owners({**others, **workers(rest, borrower)})}
    toolsets = dict(lent.toolsets)
    for toolset in lend:
        check_toolset("--lend", toolset, RESERVED_TOOLSETS)
        check_toolset("--as" if name else "--lend", name or toolset, owners, "Give a name by --as.")
        if toolsets.setdefault(name or toolset, toolset) != toolset:
            raise ValueError(f"{name or toolset} is lent already. Give another name by --as.")
    for toolset in withdraw:
        if toolset not in toolsets.values():
            raise ValueError(
                f"--withdraw {toolset}: {', '.join(toolsets.values()) or 'nothing'} is lent there. "
                "Name the lender by --tenant, the borrower by --to."
            )
        toolsets = {there: here for there, here in toolsets.items() if here != toolset}
    withdrawn = tuple(there for there in lent.toolsets if there not in toolsets)
    return [*rest, replace(lent, toolsets=toolsets, withdrawn=withdrawn)]


def workers(loans: Iterable[Lent], borrower: str) -> dict[str, Service]:
    """Name → service of the lenders' workers on a borrower's bus."""
    return {lent.service.name: lent.service for lent in loans if lent.borrower == borrower}


def write_loans(
    out: Path, loans: Sequence[Lent], prefixes: Mapping[str, str], folders: Mapping[str, Path]
) -> None:
    """Write the file of all loans, and the secret of each edge.

    Args:
        prefixes, folders: of the subjects and of the secrets of all tenants, by their names.

    Raises:
        OSError: a file cannot be written, or a borrower's key not be read.
    """
    for lender, folder in folders.items():
        lines = [
            _line(lent, prefixes[lent.borrower], folders[lent.borrower])
            for lent in loans
            if lent.lender == lender and lent.toolsets
        ]
        write_atomically(folder / "edge" / LOANS, "\n".join(lines or [NONE]), mode=0o600)
    write_atomically(out / _FILE, msgspec.json.encode(loans))


def _line(lent: Lent, prefix: str, borrowers: Path) -> str:
    name = lent.service.name
    loan = Loan(
        borrower=lent.borrower or prefix, service=name, prefix=prefix,
        inbox_prefix=inbox_prefix(name),
        seeds=values_of((borrowers / name / SEED).read_text()),
        public_keys=values_of((borrowers / name / ACTOR_PUBLIC).read_text()),
        toolsets=lent.toolsets,
    )  # fmt: skip
    return loan.line
