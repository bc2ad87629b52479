"""The check that this service adds to `searchbus doctor`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from searchbus_runtime.files import damage
from searchbus_runtime.pins import PinFile
from searchbus_runtime.settings import read_settings

from .auth.signing import KEY_FILE, read_key
from .auth.static_keys import KeyFile
from .settings import EdgeSettings


def files(folder: Path) -> tuple[str, bool, str]:
    """Whether the files of the edge in a data folder can be read."""
    settings = read_settings(EdgeSettings, "edge", data_dir=folder)
    faults = damage(
        *(() if settings.state_key else (partial(read_key, folder / KEY_FILE),)),
        *(KeyFile(path).read for path in (settings.key_file,) if path is not None),
        *(PinFile(path).read for path in (settings.pin_file,) if path is not None),
    )
    return "files of the edge", not faults, " ".join(faults) or "in order"
