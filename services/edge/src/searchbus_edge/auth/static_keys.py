"""Static keys: a file that holds their hashes, never the keys (`searchbus keys add`).

A key is `sbk_<id>_<43 characters>`: 256 random bits, so that a plain SHA-256 is enough of a hash.
The file is read again when it changes: a revoked key is refused within a second. While the file is
damaged, the last valid records stay in force.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict
from opentelemetry import metrics

from searchbus_contracts import Actor
from searchbus_runtime.files import file_stamp, locked, write_atomically

from .identity import Identity, UnauthenticatedError, kept_role

log = logging.getLogger("searchbus.edge.auth")
MAX_DAYS = 3660
"""The longest validity of a key that expires."""
_PREFIX = "sbk"
_CHECK_EVERY_S = 1.0
_REFUSED = "The key is unknown, revoked or expired."
_unreadable = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.auth.keys_file_unreadable",
    description="Times that a damaged or unreadable keys file was ignored.",
)


class KeyRecord(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One key without the key itself, valid at `endpoints` (empty: all). Times are seconds of the
    epoch; 0: never.

    An edge that knows no endpoints refuses such a key, and only such a key's file.
    """

    id: str
    name: str
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    roles: tuple[str, ...]
    created_s: int
    expires_s: int = 0
    endpoints: tuple[str, ...] = ()

    def shown(self) -> dict[str, Any]:
        """The fields that a reader may see: all but the hash."""
        return {key: value for key, value in asdict(self).items() if key != "sha256"}


class _Content(Struct):
    keys: list[KeyRecord]


class KeyFile:
    """The file of hashed keys."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[KeyRecord]:
        """All records, none without a file; raises OSError, or ValueError where it is damaged."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            return msgspec.json.decode(content, type=_Content).keys
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ValueError(
                f"{self.path} is not a valid keys file: {error}. Repair it or put it back from a "
                "copy."
            ) from None

    def add(
        self,
        name: str,
        roles: tuple[str, ...],
        *,
        expires_s: int = 0,
        endpoints: tuple[str, ...] = (),
    ) -> tuple[str, KeyRecord]:
        """Make a key. It is returned here and stored nowhere."""
        key_id = secrets.token_hex(4)
        key = f"{_PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
        record = KeyRecord(
            id=key_id, name=name, sha256=_hash(key), roles=tuple(kept_role(r) for r in roles),
            created_s=int(time.time()), expires_s=expires_s, endpoints=endpoints,
        )  # fmt: skip
        with locked(self.path):
            self._write([*self.read(), record])
        return key, record

    def rotate(self, name: str, *, expires_s: int = 0) -> tuple[str, KeyRecord]:
        """Make a second key of a name with its roles and endpoints; KeyError without one."""
        newest = self._newest(name)
        return self.add(name, newest.roles, expires_s=expires_s, endpoints=newest.endpoints)

    def retire(self, name: str) -> list[str]:
        """Remove the keys of a name but the newest, and return their ids; KeyError as above."""
        self._newest(name)  # before the lock, which makes the folder
        with locked(self.path):
            newest, records = self._newest(name), self.read()
            old = [record for record in records if record.name == name and record != newest]
            self._write([record for record in records if record not in old])
        return [record.id for record in old]

    def _newest(self, name: str) -> KeyRecord:
        named = [record for record in self.read() if record.name == name]
        if not named:
            raise KeyError(name)
        return max(reversed(named), key=lambda record: record.created_s)

    def revoke(self, key_id: str) -> bool:
        """Remove a key; False where no key has that id."""
        if key_id not in [record.id for record in self.read()]:  # the lock makes the folder
            return False
        with locked(self.path):
            records = self.read()
            kept = [record for record in records if record.id != key_id]
            self._write(kept)
        return len(kept) < len(records)

    def _write(self, records: list[KeyRecord]) -> None:
        content = msgspec.json.format(msgspec.json.encode(_Content(records)), indent=1)
        write_atomically(self.path, content, mode=0o600)


_NOBODY: tuple[KeyRecord | None, Actor] = (None, Actor())


class StaticKeys:
    """Verifies keys against a file; `clock` gives seconds of the epoch."""

    def __init__(self, file: KeyFile, *, clock: Callable[[], float] = time.time) -> None:
        _unreadable.add(0)
        self._file = file
        self._clock = clock
        self._records: dict[str, tuple[KeyRecord, Actor]] = {}
        # Keys that were verified since the file was last looked at.
        self._verified: dict[str, Identity] = {}
        self._stamp: tuple[int, ...] | None = None
        self._checked_s = float("-inf")
        self._fault = ""

    def verify(self, key: str) -> Identity:
        """The owner of a key; raises UnauthenticatedError."""
        now_s = self._clock()
        self._reload(now_s)
        known = self._verified.get(key)
        if known is not None and known.expires_s > now_s:
            return known
        found = self._verified[key] = self._verify(key, now_s)
        return found

    def _verify(self, key: str, now_s: float) -> Identity:
        parts = key.split("_", 2)
        well_formed = len(parts) == 3 and parts[0] == _PREFIX
        record, actor = self._records.get(parts[1], _NOBODY) if well_formed else _NOBODY
        matches = hmac.compare_digest(_hash(key), record.sha256 if record else "0" * 64)
        if record is None or not matches or (record.expires_s and record.expires_s <= now_s):
            raise UnauthenticatedError(_REFUSED)
        until_s = now_s + _CHECK_EVERY_S
        if record.expires_s:
            until_s = min(until_s, record.expires_s)
        return Identity(actor, until_s, record.endpoints)

    def _reload(self, now_s: float) -> None:
        """Read the file if it has changed; a file that was removed holds no keys."""
        if abs(now_s - self._checked_s) < _CHECK_EVERY_S:  # a clock may be set back, too
            return
        self._checked_s = now_s
        self._verified = {}
        try:
            stamp = file_stamp(self._file.path)
            if stamp != self._stamp:
                self._records = {r.id: (r, _actor(r)) for r in self._file.read()}
                self._stamp, self._fault = stamp, ""
        except (ValueError, OSError) as error:
            _unreadable.add(1)
            if str(error) != self._fault:  # each fault is logged once
                self._fault = str(error)
                log.error("%s The %d keys read before stay valid.", error, len(self._records))


def _actor(record: KeyRecord) -> Actor:
    # Every role, if the key was made so.
    roles = ("*",) if "*" in record.roles else record.roles
    return Actor(subject=f"key:{record.id}", roles=roles)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
