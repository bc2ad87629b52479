"""The checks that this service adds to `searchbus doctor`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from searchbus_contracts import Fault
from searchbus_runtime.files import damage
from searchbus_runtime.pins import PinFile
from searchbus_runtime.settings import read_settings
from searchbus_runtime.wording import CommandError, printable

from .auth.signing import KEY_FILE, read_key
from .auth.static_keys import KeyFile
from .settings import EdgeSettings

_MOST_SHOWN = 5


def files(folder: Path) -> tuple[str, bool, str]:
    """Whether the files of the edge in a data folder can be read."""
    settings = read_settings(EdgeSettings, "edge", data_dir=folder)
    faults = damage(
        *(() if settings.state_key else (partial(read_key, folder / KEY_FILE),)),
        *(KeyFile(path).read for path in (settings.key_file,) if path is not None),
        *(PinFile(path).read for path in (settings.pin_file,) if path is not None),
    )
    return "files of the edge", not faults, " ".join(faults) or "in order"


def held(folder: Path) -> tuple[str, bool, str]:
    """Which definitions of tools wait for approval, as the console's overview has them."""
    from .catalog.pins_command import held_now  # it takes longer to import than all the rest

    name = "held definitions"
    path = read_settings(EdgeSettings, "edge", data_dir=folder).pin_file
    file = None if path is None else PinFile(path)
    try:
        found = [] if file is None or not file.read().toolsets else held_now(file, folder)
    except (OSError, ValueError, CommandError, Fault) as error:
        # The rows of the files, the stack and nats say more.
        return name, True, printable(f"not read: {error}", one_line=True)
    waits = [change.wait for change in found if not change.held.refused]
    shown = [f"{wait.text} See: {wait.command}" for wait in waits[:_MOST_SHOWN]]
    if len(waits) > _MOST_SHOWN:
        shown.append(f"{len(waits) - _MOST_SHOWN} more are in: searchbus pins list")
    return name, True, printable(" ".join(shown) or "none", one_line=True)
