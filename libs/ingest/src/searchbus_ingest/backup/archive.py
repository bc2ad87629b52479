"""A backup on the disk: a tar file with a manifest that covers every byte.

    manifest.json               version, protocol; size and SHA-256 of each file, and of itself
    files/<name>                files of the data folder, by the names in `KEPT`
    collections/<name>.jsonl    a PointCopy a line

It is made under another name and gets its own in one step, so that half of one is never taken for
a backup. Nothing of one is used before all of it was checked.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, BinaryIO, cast

import msgspec
from msgspec import Struct

from searchbus_contracts.codec import canonical
from searchbus_contracts.ingest import CollectionCopy

FORMAT = 1
MANIFEST = "manifest.json"
_MOST_MANIFEST_BYTES = 64 * 1024 * 1024
_COLLECTION = re.compile(r"collections/[A-Za-z0-9_-]{1,64}\.jsonl")
_PROFILE = re.compile(r"files/profiles/[A-Za-z0-9_-]{1,64}\.toml")
KEPT = {
    "searchbus.toml": ("", ""),
    "sources.toml": ("", ""),
    "attach.toml": ("attach", "attach_file"),
    "attach-pins.json": ("", ""),
    "attach-logins.json": ("", ""),
    "keys.json": ("edge", "keys_file"),
    "pins.json": ("edge", "pins_file"),
    "edge.key": ("", ""),
    "secure/keys.json": ("", ""),
}
"""Name in the data folder → service and setting by which the file may be elsewhere."""
DATED = "searchbus-%Y%m%dT%H%M%SZ.tar"
"""The name of a backup by its time."""
LACKING = ".incomplete.tar"
"""Behind the name of a dated backup that lacks collections."""
_DATED = "searchbus-????????T??????Z.tar"


class BackupError(Exception):
    """A backup cannot be made or used; the message says what to do."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file.

    Args:
        path: in the backup.
        origin: where it was, for a file that was outside of the data folder.
        documents, points: of a collection.
    """

    path: str
    size_bytes: int
    sha256: str
    origin: str = ""
    documents: int = 0
    points: int = 0

    @property
    def collection(self) -> str:
        """The name of its collection; empty for another file."""
        return Path(self.path).stem if self.path.startswith("collections/") else ""

    @property
    def name(self) -> str:
        """Its place in the data folder."""
        return self.path.removeprefix("files/")


class Manifest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a backup consists of.

    Args:
        version: of searchbus; `protocol` that of the wire.
        collections: name → what it is made of.
        left_out: collections that could not be read.
        digest: SHA-256 of the rest of the manifest.
    """

    format: int
    version: str
    protocol: str
    made: str
    entries: tuple[Entry, ...]
    collections: dict[str, CollectionCopy] = {}
    left_out: tuple[str, ...] = ()
    digest: str = ""

    def signed(self) -> Manifest:
        """With its digest."""
        rest = msgspec.structs.replace(self, digest="")
        return msgspec.structs.replace(self, digest=hashlib.sha256(canonical(rest)).hexdigest())


@contextmanager
def new_backup(dest: Path) -> Iterator[Path]:
    """A folder that is packed as the backup `dest` when the block ends without an exception.

    Raises:
        BackupError: there is something at `dest`, or another backup is writing there.
    """
    if os.path.lexists(dest):
        raise BackupError(f"{dest} is there already. Choose another name, or remove it.")
    if not dest.parent.is_dir():
        raise BackupError(f"There is no folder {dest.parent}. Make it, or choose another one.")
    draft = dest.with_name(f".{dest.name}.partial")
    lock_path = dest.with_name(f".{dest.name}.lock")
    with lock_path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"Another backup is writing {dest}. Wait for it.") from None
        shutil.rmtree(draft, ignore_errors=True)  # one that was cut off
        packed = dest.with_name(f".{dest.name}.partial.tar")
        try:
            draft.mkdir(mode=0o700)
            yield draft
            _pack(draft, packed)
            packed.rename(dest)
            _sync(dest.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            packed.unlink(missing_ok=True)
            lock_path.unlink(missing_ok=True)


def keep_newest(folder: Path, count: int) -> None:
    """Delete all dated backups but the newest, and but the last that lacks collections."""
    for old in sorted(folder.glob(_DATED))[:-count]:
        old.unlink()
    for old in sorted(folder.glob(f"{_DATED}{LACKING}"))[:-1]:
        old.unlink()


def remove_cut_off(folder: Path) -> None:
    """Delete what is left of dated backups that were cut off."""
    for lock_path in folder.glob(f".{_DATED}.lock"):
        with lock_path.open("w") as lock, suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft = lock_path.with_suffix(".partial")
            shutil.rmtree(draft, ignore_errors=True)
            draft.with_name(f"{draft.name}.tar").unlink(missing_ok=True)
            lock_path.unlink()


def add_file(folder: Path, path: str, content: bytes) -> Entry:
    """Write a file of a new backup, for its owner only."""
    with create(folder, path) as file:
        file.write(content)
    return entry_of(folder, path)


@contextmanager
def create(folder: Path, path: str) -> Iterator[BinaryIO]:
    """Open a new file of a backup, for its owner only; on disk when the block ends."""
    target = folder / path
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def entry_of(folder: Path, path: str) -> Entry:
    """The size and hash of a file as it is on the disk."""
    with (folder / path).open("rb") as file:
        size_bytes, sha256 = _hash(file)
    return Entry(path=path, size_bytes=size_bytes, sha256=sha256)


class Backup:
    """A backup that is read. Use as a context manager. Raises BackupError for one that is missing
    or damaged."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._members: dict[str, tarfile.TarInfo] = {}

    def __enter__(self) -> Backup:
        try:
            with ExitStack() as closing:
                self._tar = closing.enter_context(tarfile.open(self._source, "r:"))
                self._members = dict(self._listed())
                self.manifest = self._read_manifest()
                self._closing = closing.pop_all()
        except FileNotFoundError:
            raise BackupError(
                f"There is no file {self._source}. Give the path of a backup."
            ) from None
        except IsADirectoryError:
            raise BackupError(
                f"{self._source} is a folder, not a backup. Give the path of a backup's file."
            ) from None
        except (OSError, tarfile.TarError, EOFError, ValueError) as error:
            raise BackupError(
                f"{self._source} is not a backup, or is damaged ({error}). Use another backup."
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def open(self, path: str) -> IO[bytes]:
        """Read a file of it."""
        content = self._tar.extractfile(self._members[path])
        assert content is not None  # it is a regular file
        return content

    def check(self, on_entry: Callable[[Entry], None] = lambda entry: None) -> None:
        """Compare every file with the manifest.

        Raises:
            BackupError: names all files that are damaged, missing or unknown.
        """
        listed = {entry.path for entry in self.manifest.entries}
        faults = [f"{path} is not in the manifest" for path in self._members.keys() - listed]
        faults.remove(f"{MANIFEST} is not in the manifest")
        for entry in self.manifest.entries:
            on_entry(entry)
            known = entry.path.startswith("files/") and entry.name in KEPT
            if not (known or _COLLECTION.fullmatch(entry.path) or _PROFILE.fullmatch(entry.path)):
                faults.append(f"{entry.path} is not a file of a backup")
            elif entry.path not in self._members:
                faults.append(f"{entry.path} is missing")
            else:
                try:
                    with self.open(entry.path) as file:
                        same = _hash(file) == (entry.size_bytes, entry.sha256)
                except (OSError, tarfile.TarError, EOFError) as error:
                    faults.append(f"{entry.path} cannot be read ({error})")
                else:
                    if not same:
                        faults.append(f"{entry.path} is damaged")
        if faults:
            raise BackupError(
                f"{self._source} cannot be restored: {'; '.join(sorted(faults))}. Nothing was "
                "changed. Use another backup."
            )

    def _read_manifest(self) -> Manifest:
        if MANIFEST not in self._members:
            raise BackupError(
                f"{self._source} has no {MANIFEST}: it is not a backup, or was cut off."
            )
        with self.open(MANIFEST) as file:
            manifest = msgspec.json.decode(file.read(_MOST_MANIFEST_BYTES), type=Manifest)
        if manifest.format > FORMAT:
            raise BackupError(
                f"{self._source} is of searchbus {manifest.version}, which is newer than this one. "
                "Restore it with that version."
            )
        if manifest.signed() != manifest:
            raise BackupError(f"{self._source}: {MANIFEST} is damaged. Use another backup.")
        return manifest

    def _listed(self) -> Iterator[tuple[str, tarfile.TarInfo]]:
        seen = set()
        for member in self._tar:
            parts = member.name.split("/")
            unsafe = member.name.startswith("/") or ".." in parts or "" in parts
            if unsafe or member.name in seen or not (member.isreg() or member.isdir()):
                raise BackupError(
                    f"{self._source}: {member.name!r} is a link, no regular file, there twice, or "
                    "leads out of the archive. Nothing was changed. Use another backup."
                )
            seen.add(member.name)
            if member.isreg():
                yield member.name, member


def _pack(folder: Path, packed: Path) -> None:
    descriptor = os.open(packed, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    tar.add(path, arcname=path.relative_to(folder).as_posix(), filter=_anonymous)
        file.flush()
        os.fsync(file.fileno())


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member


def _hash(file: IO[bytes]) -> tuple[int, str]:
    digest = hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()
    return file.tell(), digest


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
