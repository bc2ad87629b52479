"""Records which files of a package a piece of work enters, in order.

with Walk(searchbus_edge) as walk:
    await client.post(...)
assert walk.entered == steps("A tools/call")
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

_PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


class Walk:
    """The files of a package that this thread enters by a call from another file.

    Returning to a file does not count, nor does one call after another into the same file.

    Attributes:
        entered: paths below the package's folder.
    """

    def __init__(self, package: ModuleType) -> None:
        self.entered: list[str] = []
        self._root = f"{Path(str(package.__file__)).parent}/"
        self._seen: list[FrameType] = []

    def __enter__(self) -> Walk:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._seen.clear()

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        # A coroutine that goes on is reported as called again.
        if event != "call" or not path.startswith(self._root) or frame in self._seen:
            return
        self._seen.append(frame)
        caller = frame.f_back
        file = path.removeprefix(self._root)
        if caller is not None and caller.f_code.co_filename == path:
            return
        if self.entered[-1:] != [file]:
            self.entered.append(file)


def steps(section: str) -> list[str]:
    """The files in the table of a section of docs/architecture.md, in its order."""
    text = _PAGE.read_text(encoding="utf-8")
    (body,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return re.findall(r"^\| \d+ \| `([^`]+)` \|", body, re.M)
