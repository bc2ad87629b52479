"""A git repository: the files of one commit, fetched shallow by the `git` program.

Nothing is checked out. Files are read from git's objects, so that no link, filter, hook, attribute
or submodule of the repository has any effect, and settings of the user and the machine have none
either. Only https and local repositories are fetched, without redirects and without questions.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

from searchbus_contracts import ErrorCode, Fault

from ..sources.content import SUFFIXES
from ..sources.files import MAX_FILE_BYTES, read_files
from ..sources.item import Item, Reason, SourceUnchangedError
from ..sources.reading import Reader
from ..sources.walk import FoundFile, is_included
from .source import SourceEntry, SourceListing, SourceUnreadableError

FETCH_TIMEOUT_S = 900.0
READ_TIMEOUT_S = 120.0
MAX_PACK_BYTES = 4 * 2**30
"""Size of any file that git may write."""
MEMORY_BYTES = 2 * 2**30
"""What each process of git may have, without the files that it maps."""
MAX_PACKS = 50
"""After so many fetches the repository is fetched anew, so that old files take no space; or where
all of them together have more than `MAX_PACK_BYTES`."""
MAX_FILES = 200_000
MAX_LISTING_BYTES = 64 * 2**20
_MAX_SAID_BYTES = 2**20
_PIECE_BYTES = 2**16
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,200}")
_OPTIONS = (
    "core.hooksPath=/dev/null", "credential.helper=", "http.followRedirects=false",
    "transfer.fsckObjects=true", "transfer.unpackLimit=1", "fetch.recurseSubmodules=false",
    "gc.auto=0", "protocol.version=2", "core.fsmonitor=false", "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
)  # fmt: skip
_KEPT = ("PATH", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE")
_DRAFT = "reading-"
_UNKNOWN_TYPE = "unknown file type"
_PAGES_OF_FILES = frozenset({"github.com", "gitlab.com"})


class RepositorySource:
    """A repository, fetched into a bare one that stays for the next sync.

    Args:
        address: of https, or the absolute path of a local repository.
        branch: or tag; empty: what its HEAD names.
        home: folder of the bare repository.
        include: as of `find_files`.

    Raises:
        Fault: invalid_argument; the address or the branch cannot be used.
    """

    def __init__(
        self, address: str, branch: str, home: Path, include: tuple[str, ...] = ()
    ) -> None:
        self._local = address.startswith("/")
        if not self._local and (
            not address.startswith("https://") or "@" in urlsplit(address).netloc
        ):
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                "Write git+https://HOST/PATH without user and password, or give a local clone.",
            )
        if branch and not _BRANCH.fullmatch(branch):
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"#{branch[:80]} is not a branch. Write the name of a branch or tag behind #.",
            )
        self._address, self._branch = address, branch or "HEAD"
        self._home = home.resolve()  # the root of what is read
        self._include = include
        self._reader = Reader()
        self._base = self._page_base()

    def _page_base(self) -> str:
        """The address that a file's path is added to; empty where that is unknown."""
        if self._local:
            return f"file://{quote(self._address)}/"
        host = urlsplit(self._address).hostname
        known = host in _PAGES_OF_FILES
        return f"{self._address.removesuffix('.git')}/blob/{self._branch}/" if known else ""

    async def entries(self, known: str) -> SourceListing:
        """See `SyncSource`."""
        commit = await self._fetched()
        stamp = "\n".join((commit, *self._include))
        if known == stamp:
            raise SourceUnchangedError
        found = SourceListing([], stamp=stamp)
        listing = await self._git(
            "ls-tree", "-r", "-z", "-l", commit, timeout_s=READ_TIMEOUT_S,
            most_bytes=MAX_LISTING_BYTES,
        )  # fmt: skip
        if listing.count(b"\0") > MAX_FILES:
            raise SourceUnreadableError(f"it has more than {MAX_FILES:,} files; sync a part of it")
        # As many names and patterns as the limits admit take seconds.
        await asyncio.to_thread(_list_files, listing, self._include, found)
        return found

    async def _fetched(self) -> str:
        """The commit, which is in the bare repository now."""
        sizes = [p.stat().st_size for p in self._home.glob("objects/pack/*.pack")]  # one a fetch
        too_many = len(sizes) > MAX_PACKS or sum(sizes) > MAX_PACK_BYTES
        if not (self._home / "HEAD").exists() or too_many:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home.mkdir(parents=True)
            await self._git("init", "--bare", "--quiet", "--template=", timeout_s=READ_TIMEOUT_S)
        # A killed fetch leaves its locks. No other process has them: the source is claimed.
        for left in (*self._home.rglob("*.lock"), *self._home.glob("objects/pack/tmp_*")):
            left.unlink(missing_ok=True)
        for left in self._home.glob(f"{_DRAFT}*"):
            shutil.rmtree(left, ignore_errors=True)
        address = f"file://{self._address}" if self._local else self._address
        await self._git(
            "fetch", "--depth=1", "--no-tags", "--quiet", "--force", "--no-write-fetch-head",
            "--end-of-options", address, f"{self._branch}:refs/sync/now", timeout_s=FETCH_TIMEOUT_S,
        )  # fmt: skip
        commit = await self._git("rev-parse", "refs/sync/now^{commit}", timeout_s=READ_TIMEOUT_S)
        return commit.decode().strip()

    async def read(self, entry: SourceEntry, known: str, collection: str) -> AsyncIterator[Item]:
        """See `SyncSource`."""
        try:
            body = await self._git(
                "cat-file", "blob", entry.stamp, timeout_s=READ_TIMEOUT_S,
                most_bytes=MAX_FILE_BYTES,
            )  # fmt: skip
        except SourceUnreadableError as error:
            yield Item(entry.name, problem=f"cannot be read: {error}")
            return
        # Not among the temporary files of others, who could put a link in the place of the file.
        with tempfile.TemporaryDirectory(prefix=_DRAFT, dir=self._home) as made:
            folder = Path(made)
            path = folder / Path(entry.name).name
            try:
                await asyncio.to_thread(path.write_bytes, body)
            except (OSError, ValueError) as error:  # of a name that no disk has
                yield Item(entry.name, problem=f"cannot be read: {error}")
                return
            url = f"{self._base}{quote(entry.name)}" if self._base else None
            files = [FoundFile(entry.name, path, root=folder)]
            async for item in read_files(files, collection, self._reader, url=url):
                yield item

    async def close(self) -> None:
        """See `SyncSource`."""
        await self._reader.close()

    async def _git(
        self, *arguments: str, timeout_s: float, most_bytes: int = _MAX_SAID_BYTES
    ) -> bytes:
        """The output of a command; raises SourceUnreadableError, also where there is more of it."""
        options = [part for option in _OPTIONS for part in ("-c", option)]
        try:
            process = await asyncio.create_subprocess_exec(
                "git", *options, "-C", str(self._home), *arguments,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE, env=self._environment(), start_new_session=True,
                preexec_fn=_limit,
            )  # fmt: skip
        except FileNotFoundError:
            raise SourceUnreadableError("git is not installed here; install it") from None

        def end() -> None:
            with suppress(ProcessLookupError):  # its own group: fetch has children
                os.killpg(process.pid, signal.SIGKILL)

        try:
            async with asyncio.timeout(timeout_s):
                out, problem = await asyncio.gather(
                    _read(process.stdout, most_bytes, end),
                    _read(process.stderr, _MAX_SAID_BYTES, end),
                )
                await process.wait()
        except TimeoutError:
            raise SourceUnreadableError(
                f"git {arguments[0]} took longer than {timeout_s:.0f} s"
            ) from None
        finally:
            if process.returncode is None:
                end()
                await process.communicate()  # with full pipes it would not end
        if len(out) > most_bytes or len(problem) > _MAX_SAID_BYTES:
            raise SourceUnreadableError(f"git {arguments[0]} says too much to be read")
        if process.returncode:
            text = problem.decode("utf-8", "replace").strip()
            if "dubious ownership" in text:
                raise SourceUnreadableError(
                    f"{self._address} belongs to another user, whose settings git does not trust. "
                    f"Sync as that user, or its files: folder+{self._address}"
                )
            lines = text.splitlines() or ["no message"]
            why = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
            raise SourceUnreadableError(f"git {arguments[0]}: {why[:300]}")
        return out

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return kept | {
            "GIT_DIR": str(self._home), "HOME": str(self._home), "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ALLOW_PROTOCOL": "file" if self._local else "https", "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true", "GIT_NO_LAZY_FETCH": "1",
        }  # fmt: skip


def _list_files(listing: bytes, include: tuple[str, ...], found: SourceListing) -> None:
    """Add what `git ls-tree -z -l` lists: files that are read, and those that are not and why."""
    for row in filter(None, listing.split(b"\0")):
        about, _, raw = row.partition(b"\t")
        mode, _, blob, size = about.decode().split()
        name = raw.decode("utf-8", "replace")
        if not is_included(name, include):
            continue
        problem = _left_out(name, mode)
        if problem:
            asked = bool(include) and problem == _UNKNOWN_TYPE
            found.skipped.append(
                Item(name, problem=problem, reason=Reason.UNSUPPORTED, left_out=not asked)
            )
        elif int(size) > MAX_FILE_BYTES:
            problem = f"larger than {MAX_FILE_BYTES // 2**20} MiB, the limit of a file"
            found.skipped.append(Item(name, problem=problem, reason=Reason.TOO_LARGE))
        else:
            found.entries.append(SourceEntry(name, blob, name))


def _left_out(name: str, mode: str) -> str:
    if mode not in ("100644", "100755"):
        return "a link or a submodule, which is not followed"
    if any(part.startswith(".") for part in name.split("/")):
        return "hidden files are not read"
    if Path(name).suffix.lower() not in SUFFIXES:
        return _UNKNOWN_TYPE
    return ""


async def _read(
    stream: asyncio.StreamReader | None, most_bytes: int, end: Callable[[], None]
) -> bytes:
    """What a process prints, up to its end or to more than `most_bytes`, which end it."""
    assert stream is not None
    found = bytearray()
    while piece := await stream.read(_PIECE_BYTES):
        if len(found) <= most_bytes:
            found += piece
        else:
            end()
    return bytes(found)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_PACK_BYTES, MAX_PACK_BYTES))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
