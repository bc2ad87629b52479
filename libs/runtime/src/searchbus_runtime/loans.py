"""Loans: toolsets that an installation lends to other tenants of its NATS server.

`searchbus nats-config --lend` writes them into the secret SEARCHBUS_LOANS, and the edge follows the
file: a tenant that borrows a line, as JSON without blanks. `NONE` stands in the place of no line,
since the last values of an empty file would stay in force.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from searchbus_contracts.catalog import RESERVED_TOOLSETS
from searchbus_contracts.subjects import check_tokens

from .settings import check_public_key, check_seed

NONE = "{}"


class Loan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one tenant borrows, and how the lender's edge serves it on that tenant's bus.

    Args:
        borrower: the tenant.
        service: the name of the lender's worker there; empty in `NONE`.
        prefix: of the subjects there.
        inbox_prefix: of the lender's user there.
        seeds: of that user; two while one is rotated.
        public_keys: that verify the callers of the borrower's edges.
        toolsets: their names there → here.
    """

    borrower: str = ""
    service: str = ""
    prefix: str = ""
    inbox_prefix: str = ""
    seeds: tuple[str, ...] = ()
    public_keys: tuple[str, ...] = ()
    toolsets: dict[str, str] = {}

    @classmethod
    def parse(cls, line: str) -> Loan:
        """A loan of its line; raises ValueError (damaged, or lends the edge's own tools)."""
        loan = msgspec.json.decode(line, type=cls)
        if loan == cls():
            return loan
        check_tokens(loan.service, loan.prefix, *loan.toolsets, *loan.toolsets.values())
        for keys, check in ((loan.seeds, check_seed), (loan.public_keys, check_public_key)):
            if not keys:
                raise ValueError("has no keys; `searchbus nats-config` makes them")
            for key in keys:
                check(key)
        for toolset in RESERVED_TOOLSETS.keys() & loan.toolsets.values():
            raise ValueError(f"lends {toolset}, which is of the edge itself")
        return loan

    @property
    def line(self) -> str:
        """Its line of the file."""
        return msgspec.json.encode(self).decode()
