"""The check that this service adds to `searchbus doctor`."""

from __future__ import annotations

from pathlib import Path

from searchbus_runtime.files import damage
from searchbus_runtime.pins import PinFile

from .declare.attach_file import AttachFile
from .settings import AttachSettings

__all__ = ["files"]


def files(folder: Path) -> tuple[str, bool, str]:
    """Whether the files of attached servers in a data folder can be read."""
    settings = AttachSettings(data_dir=folder)
    faults = damage(AttachFile(settings.file).read_all, PinFile(settings.pins).read)
    return "attached servers", not faults, " ".join(faults) or "files in order"
