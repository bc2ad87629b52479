"""Programs of Kubernetes: those of this machine, else those of the reference data, unpacked once."""

from __future__ import annotations

import functools
import lzma
import os
import shutil
from pathlib import Path

from .engine import ROOT

_PACKED = ROOT.parent / "shared" / "bin"
_UNPACKED = ROOT / "build" / "bin"


def why_no_binary(*names: str) -> str | None:
    """Why a test that needs these programs cannot run; None where it can."""
    missing = [n for n in names if not shutil.which(n) and not (_PACKED / f"{n}.xz").is_file()]
    return (
        f"{', '.join(missing)}: neither installed nor among the reference data" if missing else None
    )


@functools.cache
def binary(name: str) -> Path:
    """The path of a program.

    Raises:
        FileNotFoundError: it is nowhere; see `why_no_binary`.
    """
    installed = shutil.which(name)
    if installed is not None:
        return Path(installed)
    packed, target = _PACKED / f"{name}.xz", _UNPACKED / name
    if not target.is_file() or target.stat().st_mtime < packed.stat().st_mtime:
        _UNPACKED.mkdir(parents=True, exist_ok=True)
        # Several processes of the tests may do this at once: each writes its own, the last one stays.
        own = target.with_suffix(f".{os.getpid()}")
        with lzma.open(packed) as source, own.open("wb") as out:
            shutil.copyfileobj(source, out)
        own.chmod(0o755)
        own.replace(target)
    return target
