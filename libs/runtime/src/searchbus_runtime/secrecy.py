"""Secrets in settings: kept from other processes of the same user.

/proc/PID/environ shows the environment with which a program was started, for all of its life, to
every process of the same user. Root reads the memory of any process, unless the kernel confines it
(Landlock; services/attach).
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

PUBLIC_VARIABLES = (
    "HOME", "INVOCATION_ID", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
)  # fmt: skip
"""Variables without secrets: they stay visible, and attached commands get them."""
SETTINGS_FD = "SEARCHBUS_SETTINGS_FD"
"""Environment variable: a descriptor from which a process reads further settings, as JSON."""
_PREFIX = "SEARCHBUS_"
_PR_SET_DUMPABLE = 4
_STAT_ENV_START = 47  # fields of /proc/PID/stat after the name (proc(5): 50 and 51)


def hide_environment() -> None:
    """Erase what this process was started with, and hide its memory from others; Linux only."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    # The C library copies what is set; until then it points into the block that is erased.
    for name, value in os.environ.items():
        if name:  # a block may hold "=text", which cannot be set
            os.environ[name] = value
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = map(int, fields[_STAT_ENV_START : _STAT_ENV_START + 2])
    public = {name.encode() for name in PUBLIC_VARIABLES}
    kept = [
        entry if entry.partition(b"=")[0] in public else b""
        for entry in ctypes.string_at(start, end - start).split(b"\0")
    ]
    shown = b"\0".join(filter(None, kept))
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


def take_settings() -> None:
    """Hide the environment, and add to it what the parent passes by a descriptor."""
    hide_environment()
    descriptor = os.environ.pop(SETTINGS_FD, None)
    if descriptor is not None:
        with os.fdopen(int(descriptor), "rb") as pipe:
            os.environ.update(json.loads(pipe.read()))


def public_environment() -> dict[str, str]:
    """The part of our environment for programs that need none of its secrets."""
    return {name: os.environ[name] for name in PUBLIC_VARIABLES if name in os.environ}


def without_settings(environment: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    """The environment for the start of a service, and what is written to its descriptor."""
    settings = {name: text for name, text in environment.items() if name.startswith(_PREFIX)}
    rest = {name: text for name, text in environment.items() if name not in settings}
    return rest, json.dumps(settings).encode()
