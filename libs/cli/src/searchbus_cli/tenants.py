"""Tenants: installations that share a NATS server, each in accounts and with a prefix of its own.

They are kept beside the server's configuration, so that each later run of `searchbus nats-config`
admits them again:

    nats/tenants.json            name → prefix; the installation itself has the empty name
    tenants/<name>/<service>/    the secrets of each service, its prefix among them

Accounts of NATS are separate sets of subjects: a tenant receives nothing of another one, whatever
its keys may publish and subscribe to.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from searchbus_contracts.subjects import is_token

from .errors import StackError

FILE = Path("nats") / "tenants.json"
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")


def tenant_folder(out: Path, name: str) -> Path:
    """The folder of a tenant's secrets; the installation itself has the empty name."""
    return out / "tenants" / name if name else out


def read_tenants(out: Path) -> dict[str, str]:
    """Name → prefix of admitted tenants and of the installation itself; raises OSError, StackError
    (damaged)."""
    try:
        return msgspec.json.decode((out / FILE).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, ValueError) as error:
        raise StackError(
            f"{out / FILE} is damaged ({error}). Put it back from a copy, or delete it and admit "
            "its tenants again: their secrets are kept."
        ) from None


def with_tenant(known: dict[str, str], name: str, prefix: str, own: str) -> dict[str, str]:
    """The tenants and one more.

    Args:
        prefix: of its subjects; empty for the one that it has, or for its name.
        own: the prefix of the installation itself.

    Raises:
        StackError: the name or the prefix cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise StackError(f"--tenant {name}: use up to 32 lower-case letters, digits and hyphens.")
    prefix = prefix or known.get(name) or name
    if not is_token(prefix):
        raise StackError(f"--prefix {prefix}: use 1 to 64 letters, digits, - and _.")
    taken = {own: "the installation itself"} | {
        other: f"the tenant {one}" for one, other in known.items() if one != name
    }
    if prefix in taken:
        raise StackError(f"--prefix {prefix} belongs to {taken[prefix]}. Use another one.")
    return {**known, name: prefix}
