"""What the process of a command may reach beyond its own: enforced by the kernel (Landlock).

descriptor = rules(server, own)     # None: it is not confined
restrict(descriptor)                # in the process, between fork and exec

With `confine` = `processes` the command, and all that it starts, cannot read the memory and the
descriptors of processes that they did not start, also as root, nor signal them (Linux 6.12). With
`files` it can besides reach only files of the system, its own, those of `paths`, and its TMPDIR,
which is a folder of its own. Nothing that it starts gains rights (no_new_privs).

/proc/PID/environ is closed to it as well, but not to root, whom newer kernels let read it
(CAP_PERFMON): our processes erase theirs (searchbus_runtime.secrecy). The interface of the kernel
is described in its Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from searchbus_runtime.files import expanded

from ..declare.servers import Server
from ..errors import ServerDeclarationError

NO_LANDLOCK = "this system has no Landlock (Linux 5.19 or later, switched on)"
_SYSTEM = (
    "/bin", "/etc", "/lib", "/lib32", "/lib64", "/nix/store", "/opt", "/proc", "/sbin", "/sys",
    "/usr", "/run/systemd/resolve",
)  # fmt: skip
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "shm", "ptmx", "pts")
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # alike on all architectures
_VERSION = 1
_PATH_BENEATH = 1
_SCOPE_SIGNAL = 1 << 1
_PR_SET_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _REFER, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_PATH_ONLY = os.O_CLOEXEC
if sys.platform == "linux":
    _PATH_ONLY |= os.O_PATH
# Loaded at import: between fork and exec nothing is to be loaded.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def landlock_abi() -> int:
    """The version of Landlock; 0 where the kernel has none that can be used.

    The first one forbids to move files between folders, which package managers do.
    """
    if _libc is None:
        return 0
    version: int = _libc.syscall(_CREATE_RULESET, None, 0, _VERSION)
    return version if version >= 2 else 0


def rules(server: Server, environment: Mapping[str, str], own: Iterable[Path]) -> int | None:
    """A descriptor of the rules for a command; None where it is not confined.

    Args:
        server: its variables are expanded.
        environment: the variables of the command; with `files` TMPDIR is one.
        own: files and folders of searchbus that no rule opens, whatever `paths` has.

    Raises:
        DeclarationError: the rules cannot be made.
    """
    abi = landlock_abi()
    if server.confine == "none" or (server.confine == "processes" and not abi):
        return None
    if not abi:
        raise ServerDeclarationError(f'confine = "files": {NO_LANDLOCK}; it is not started without')
    by_signal = _SCOPE_SIGNAL if abi >= 6 else 0
    rights = (1 << 14 + (abi >= 3) + (abi >= 5)) - 1  # those that this version knows
    if server.confine == "processes":
        # A domain must restrict something: before signals, to make devices, which is allowed again.
        rights, own = 0 if by_signal else _MAKE_CHAR | _REFER, ()
    found = _Rules(abi, rights, by_signal, own)
    try:
        if server.confine == "files":
            _allow_files(found, server, environment)
        elif rights:
            found.allow(Path("/"), rights)
    except BaseException:
        os.close(found.descriptor)
        raise
    return found.descriptor


def restrict(descriptor: int) -> None:
    """Put this process, and all that it starts, under rules for ever.

    Raises:
        OSError: the kernel refuses.
    """
    assert _libc is not None
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _libc.syscall(_RESTRICT_SELF, descriptor, 0):
        raise OSError(ctypes.get_errno(), "the command cannot be confined")


def _allow_files(found: _Rules, server: Server, environment: Mapping[str, str]) -> None:
    program = shutil.which(server.command, path=environment.get("PATH")) or server.command
    cwd = Path(server.cwd).absolute()
    read = [*_SYSTEM, sys.prefix, sys.base_prefix, str((cwd / program).resolve().parent)]
    for text in read:
        with suppress(FileNotFoundError):
            found.allow(Path(text), _READ)
    for path in (Path(environment["TMPDIR"]), *(Path("/dev") / name for name in _DEVICES)):
        with suppress(FileNotFoundError):
            found.allow(path, ~0)
    for text in (*filter(None, [server.cwd]), *server.paths):
        try:
            found.allow(expanded(text), ~0)
        except OSError as error:
            raise ServerDeclarationError(
                f"{text} cannot be opened for the command ({error.strerror}); make it, or correct "
                "'cwd' or 'paths'"
            ) from None


class _Rules:
    """Rules that are being made; `handled` are the rights that need one. `own`: see `rules`."""

    def __init__(self, abi: int, handled: int, scoped: int, own: Iterable[Path]) -> None:
        self._handled = handled
        self._own = [path.resolve() for path in own]
        attributes = struct.pack("=QQQ", handled, 0, scoped)
        size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        self.descriptor = _called(_CREATE_RULESET, attributes[:size], size, 0)

    def allow(self, path: Path, rights: int) -> None:
        """Allow rights below a path, except for what is ours.

        Raises:
            OSError: it cannot be opened.
        """
        path = path.resolve(strict=True)
        if any(path.is_relative_to(one) for one in self._own):
            return
        if any(one.is_relative_to(path) for one in self._own):
            # No rule takes a part of a folder out: one for each entry, and the list of them.
            self._add(path, rights & _READ_DIR)
            for entry in os.scandir(path):
                with suppress(FileNotFoundError):
                    if not entry.is_symlink():
                        self.allow(Path(entry.path), rights)
            return
        self._add(path, rights)

    def _add(self, path: Path, rights: int) -> None:
        rights &= self._handled if path.is_dir() else self._handled & _OF_FILES
        descriptor = os.open(path, _PATH_ONLY)
        try:
            rule = struct.pack("=Qi", rights, descriptor)
            _called(_ADD_RULE, self.descriptor, _PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)


def _called(number: int, *arguments: int | bytes) -> int:
    assert _libc is not None
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
