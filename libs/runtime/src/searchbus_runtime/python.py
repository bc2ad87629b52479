"""How our programs start Python: the one place that names the interpreter for a module of ours."""

from __future__ import annotations

import sys


def python(*arguments: str) -> list[str]:
    """A command that runs this interpreter, e.g. `python("-m", "searchbus_cli", "up")`.

    Without -P it would import what lies in the current folder: a file that somebody sent, or the
    project that a host of MCP has opened.
    """
    return [sys.executable, "-P", *arguments]
