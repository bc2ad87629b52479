"""How many points a collection has at least, kept beside its files.

    count = PointCount(path)
    count.raise_to(60)        # after points were stored
    count.lower_to(58)        # before points are deleted
    PointCount(path).least    # 58

The engine opens a collection whose list of points was cut, and serves what is left. The number kept
here is never above the true one, whenever the process ends, so a collection that holds fewer points
has lost some.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

__all__ = ["PointCount"]

log = logging.getLogger("searchbus.vectors")
_FILE = "points.json"


class PointCount:
    """The number for one collection.

    Args:
        folder: of the collection.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self.least = self._read()
        """0 where nothing was recorded."""

    def raise_to(self, count: int) -> None:
        """Record that there are more points. Where that fails, the lower number stays true."""
        if count <= self.least:
            return
        try:
            self._write(count, durable=False)
        except OSError as error:
            log.warning("%s could not be written: %s", self._path, error.strerror)

    def lower_to(self, count: int) -> None:
        """Record that points may be missing from now on; on disk when this returns.

        Raises:
            OSError: it could not be written. Nothing may be deleted then.
        """
        if count < self.least:
            self._write(count, durable=True)

    def _read(self) -> int:
        try:
            return int(json.loads(self._path.read_bytes())["points"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def _write(self, count: int, *, durable: bool) -> None:
        draft = self._path.with_name(f".{_FILE}.tmp")
        with draft.open("w") as file:
            json.dump({"points": count}, file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(self._path)
        self.least = count
