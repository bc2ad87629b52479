"""macOS, played on Linux: this process loses what macOS does not have.

    python -m pytest -p tests.contract.macos libs/runtime/tests/test_parent.py

- `sys.platform` is "darwin" while modules of searchbus are imported and run.
- The names of `os`, `socket`, `select` and others that Python has on Linux only are gone; typeshed
  says which (it comes with mypy).
- The C library has no symbol: all that searchbus calls there are calls of Linux or of glibc.
- /proc and /sys do not exist, for searchbus; nor do packet sockets of AF_UNIX, abstract addresses
  and limits of the address space.

Packages of others keep the Linux for which they were built: they are imported before.
"""

from __future__ import annotations

import ast
import ctypes
import errno
import importlib
import importlib.util
import pkgutil
import resource
import selectors
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

SYSTEM_MODULES = ("fcntl", "mmap", "os", "resource", "select", "signal", "socket", "time")
"""Modules of Python that differ between systems."""
_KEPT = ("searchbus_testing",)


def packages() -> list[str]:
    """The packages of searchbus that are installed, without those of tests."""
    found = {
        module.name for module in pkgutil.iter_modules() if module.name.startswith("searchbus_")
    }
    return sorted(found - {*_KEPT})


def modules() -> list[str]:
    """Every module of searchbus, without those that are started as a program."""
    found = []
    for package in packages():
        found.append(package)
        paths = importlib.import_module(package).__path__
        found += [one.name for one in pkgutil.walk_packages(paths, f"{package}.")]
    return sorted(name for name in found if not name.endswith("__main__"))


def linux_only(module: str) -> set[str]:
    """Names of a module of Python that it has on Linux and not on macOS."""
    spec = importlib.util.find_spec("mypy")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "typeshed" / "stdlib"
    found = [folder / module / "__init__.pyi", folder / f"{module}.pyi", folder / f"_{module}.pyi"]
    trees = [ast.parse(path.read_text()) for path in found if path.exists()]
    assert trees, module
    linux, macos = (
        {name for tree in trees for name in _names(tree.body, platform)}
        for platform in ("linux", "darwin")
    )
    return linux - macos


def become() -> None:
    """Change this process for good."""
    for name in modules():
        for package in _imported_by(importlib.import_module(name)):
            with suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(package)
    for name in [name for name in sys.modules if name.startswith("searchbus_")]:
        if name.partition(".")[0] not in _KEPT:
            del sys.modules[name]
    for name in SYSTEM_MODULES:
        for missing in linux_only(name):
            vars(importlib.import_module(name)).pop(missing, None)
    # Parts of Python that chose a call of Linux when they were imported.
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
    selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc,assignment]
    ctypes.CDLL = _NoLibrary  # type: ignore[misc,assignment]
    sys.addaudithook(_refuse)
    sys.platform = "darwin"


class _NoLibrary:
    """In place of ctypes.CDLL: a library without symbols."""

    def __init__(self, name: str | None, **_: object) -> None:
        self._name = name


def _imported_by(module: ModuleType) -> Iterator[str]:
    """Names of modules of others that a module imports, also later than at its own import."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str() as name, level=0):
                yield name


def _names(body: list[ast.stmt], platform: str) -> Iterator[str]:
    """What a stub defines on a platform."""
    for node in body:
        match node:
            case ast.If():
                system = SimpleNamespace(platform=platform, version_info=sys.version_info)
                test = compile(ast.Expression(node.test), "stub", "eval")
                holds = eval(test, {"sys": system})
                yield from _names(node.body if holds else node.orelse, platform)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.ImportFrom(names=aliases):
                yield from (alias.asname for alias in aliases if alias.asname is not None)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Fail as macOS does; called by Python before it asks the system."""
    match event, arguments:
        case "open", (str() | bytes() as path, *_):
            text = path if isinstance(path, str) else path.decode(errors="replace")
            if text.startswith(("/proc/", "/sys/")) and _asked_by_searchbus():
                raise FileNotFoundError(errno.ENOENT, "macOS does not have it", text)
        case "socket.__new__", (_, socket.AF_UNIX, socket.SOCK_SEQPACKET, *_):
            raise OSError(errno.EPROTONOSUPPORT, "macOS does not have these sockets")
        case (("socket.bind" | "socket.connect"), (_, str() | bytes() as address)):
            if address[:1] in ("\0", b"\0"):
                raise OSError(errno.ENOENT, "macOS has no abstract addresses")
        case "resource.setrlimit", (resource.RLIMIT_AS, *_):
            raise ValueError("macOS refuses limits of the address space")


def _asked_by_searchbus() -> bool:
    """Whether the first caller that is not of Python's own library is searchbus."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if name not in sys.stdlib_module_names:
            return name.startswith("searchbus_")
        frame = frame.f_back
    return False


if "pytest" in sys.modules:  # as its plugin
    become()
