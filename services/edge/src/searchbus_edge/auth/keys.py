"""Static keys: a file that holds their hashes, never the keys (`searchbus keys add`).

A key is `sbk_<id>_<43 characters>`: 256 random bits, so that a plain SHA-256 is enough of a hash.
The file is read again when it changes: a revoked key is refused within a second.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from searchbus_contracts import Actor
from searchbus_contracts.headers import bare_role

from .identity import Identity, Unauthenticated

__all__ = ["KeyFile", "KeyRecord", "StaticKeys"]

_PREFIX = "sbk"
_LOOK_EVERY_S = 1.0
_REFUSED = "The key is not known here."


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key without the key. Times are seconds of the epoch; 0: it does not expire."""

    id: str
    name: str
    sha256: str
    roles: tuple[str, ...]
    created_s: int
    expires_s: int = 0


class KeyFile:
    """The file of hashed keys."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[KeyRecord]:
        """All records; raises ValueError for a damaged file."""
        try:
            raw = json.loads(self.path.read_text())
            return [KeyRecord(**{**item, "roles": tuple(item["roles"])}) for item in raw["keys"]]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} is no file of keys: {error}") from None

    def add(
        self, name: str, roles: tuple[str, ...], *, expires_s: int = 0
    ) -> tuple[str, KeyRecord]:
        """Make a key; it is returned here and nowhere else."""
        key_id = secrets.token_hex(4)
        key = f"{_PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
        record = KeyRecord(
            id=key_id, name=name, sha256=_hash(key), roles=tuple(bare_role(r) for r in roles),
            created_s=int(time.time()), expires_s=expires_s,
        )  # fmt: skip
        self._write([*self.read(), record])
        return key, record

    def revoke(self, key_id: str) -> bool:
        """Remove a key; False where there is none of that id."""
        records = self.read()
        kept = [record for record in records if record.id != key_id]
        self._write(kept)
        return len(kept) < len(records)

    def _write(self, records: list[KeyRecord]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"keys": [asdict(record) for record in records]}, file, indent=1)
        draft.replace(self.path)


class StaticKeys:
    """Turns keys into identities."""

    def __init__(self, file: KeyFile, *, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._clock = clock
        self._records: dict[str, KeyRecord] = {}
        self._stamp: tuple[int, int] | None = None
        self._looked_s = float("-inf")

    def verify(self, key: str) -> Identity:
        """Whose key it is; raises Unauthenticated."""
        self._look()
        parts = key.split("_", 2)
        record = self._records.get(parts[1]) if len(parts) == 3 and parts[0] == _PREFIX else None
        good = hmac.compare_digest(_hash(key), record.sha256 if record else "0" * 64)
        now_s = self._clock()
        if record is None or not good or (record.expires_s and record.expires_s <= now_s):
            raise Unauthenticated(_REFUSED)
        actor = Actor(subject=f"key:{record.id}", roles=tuple(r for r in record.roles if r != "*"))
        if "*" in record.roles:  # whoever made the key said so
            actor = Actor(subject=actor.subject, roles=("*",))
        return Identity(actor, now_s + _LOOK_EVERY_S)

    def _look(self) -> None:
        now_s = self._clock()
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        try:
            status = self._file.path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
        except OSError:
            self._records, self._stamp = {}, None
            return
        if stamp != self._stamp:
            self._records = {record.id: record for record in self._file.read()}
            self._stamp = stamp


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
