"""`searchbus nats-config --lend` and `--withdraw`: toolsets that one tenant lends to another.

The lender's edge gets a user in the borrower's account, whose permissions are those of a worker
with the lent toolsets, and no more:

    nats/loans.json                    who lends what to whom; each later run admits it again
    <borrower>/loan-<lender>/          the keys of that user, made as those of any service
    <lender>/edge/SEARCHBUS_LOANS      the same for the lender's edge, which follows the file

A toolset that is withdrawn is in that file no more, and the lender's edge then tells the
borrower's edges that its tools are gone. It needs its permissions for that: the first run after
`_LEAVING_S` removes them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
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
_LEAVING_S = 900.0
"""For the lender's edge to read its changed secret. Tools whose worker leaves without a word stay
in the borrower's lists for a day."""


class Lent(Struct, frozen=True, kw_only=True):
    """What one tenant lends to another; the installation itself has the empty name.

    Args:
        toolsets: their names for the borrower → for the lender.
        withdrawn_s: names for the borrower, which keep their permissions for `_LEAVING_S` → since
            when, in seconds of the epoch.
    """

    lender: str
    borrower: str
    toolsets: dict[str, str] = {}
    withdrawn_s: dict[str, float] = {}

    @property
    def service(self) -> Service:
        """The lender's worker on the borrower's bus."""
        name = f"loan-{self.lender}" if self.lender else "loan"
        return Service(name=name, toolsets=(*self.toolsets, *self.withdrawn_s))


def read_loans(out: Path, prefixes: Mapping[str, str], removed: str = "") -> list[Lent]:
    """The loans of earlier runs between these tenants, without what was withdrawn long ago.

    Args:
        prefixes: of the subjects of all tenants, by their names.
        removed: a tenant that is admitted no more.

    Raises:
        OSError: the file cannot be read.
        StackError: it is damaged, or a tenant is removed that lends.
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
    since_s = time.time() - _LEAVING_S
    kept = []
    for lent in found:
        if removed and removed == lent.lender and lent.toolsets and lent.borrower in prefixes:
            raise StackError(
                f"--remove-tenant {removed}: it lends {', '.join(lent.toolsets.values())} to "
                f"{lent.borrower or 'the installation itself'}. Withdraw it first, and remove the "
                "tenant once these tools are gone there."
            )
        withdrawn_s = {name: at_s for name, at_s in lent.withdrawn_s.items() if at_s > since_s}
        if (lent.toolsets or withdrawn_s) and {lent.lender, lent.borrower} <= {*prefixes}:
            kept.append(replace(lent, withdrawn_s=withdrawn_s))
    return kept


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
    owners |= {
        toolset: f"{borrower or 'the installation itself'}, which lends it"
        for one in known if one.lender == borrower for toolset in one.toolsets.values()
    }  # fmt: skip
    # What is borrowed is not lent on, so that no call goes in a circle.
    not_own = {**RESERVED_TOOLSETS, **toolset_owners(workers(known, lender))}
    toolsets = dict(lent.toolsets)
    for toolset in lend:
        check_toolset("--lend", toolset, not_own, "Use one of the lender's own.")
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
    left_s = lent.withdrawn_s | dict.fromkeys(lent.toolsets, time.time())
    withdrawn_s = {name: at_s for name, at_s in left_s.items() if name not in toolsets}
    return [*rest, replace(lent, toolsets=toolsets, withdrawn_s=withdrawn_s)]


def workers(loans: Iterable[Lent], borrower: str) -> dict[str, Service]:
    """Name → service of the lenders' workers on a borrower's bus."""
    return {lent.service.name: lent.service for lent in loans if lent.borrower == borrower}


def write_loans(
    out: Path, loans: Sequence[Lent], prefixes: Mapping[str, str], folders: Mapping[str, Path]
) -> None:
    """Write the file of all loans, where there are or were some, and the secret of each edge.

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
        path = folder / "edge" / LOANS
        if lines or path.exists():  # one that lends nothing needs no file
            write_atomically(path, "\n".join(lines or [NONE]), mode=0o600)
    if loans or (out / _FILE).exists():
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
