"""A secret that is read again when its file changes: a key is rotated without a restart.

While a key is rotated the file holds two values, one a line: the old one, then the new one
(`searchbus nats-config --rotate`). When the old one is removed (`--retire`), processes notice that
at different times, so a value that left the file is accepted for a while.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from .files import file_stamp

log = logging.getLogger("searchbus.secrets")
_LOOK_EVERY_S = 1.0
RETIRED_S = 120.0
"""A kubelet takes up to about ninety seconds to give a changed Secret to all pods."""


def values_of(text: str) -> tuple[str, ...]:
    """The values of a file's text, one a line, or a list as JSON; raises ValueError for none."""
    if text.lstrip().startswith("["):
        found = json.loads(text)
        values = tuple(value for value in found if isinstance(value, str) and value)
        if len(values) != len(found):
            raise ValueError("is not a list of texts")
    else:
        values = tuple(dict.fromkeys(text.split()))
    if not values:
        raise ValueError("is empty")
    return values


class Secret:
    """The values of one secret. While its file cannot be used, the last ones stay in force.

    Args:
        name: of the setting.
        values: as the settings were read.
        path: its file, looked at once a second; `None` where it is set elsewhere: it never changes.
        check: raises ValueError for a value that cannot be used.
        clock: seconds.
    """

    def __init__(
        self,
        name: str,
        values: tuple[str, ...],
        path: Path | None = None,
        *,
        check: Callable[[str], object] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._values = values
        self._path = path
        self._check = check
        self._clock = clock
        self._retired: dict[str, float] = {}
        # Read once more at the first look: the file may have changed since the settings were read.
        self._stamp: tuple[int, ...] | None = None
        self._looked_s = float("-inf")
        self._fault = ""

    def values(self) -> tuple[str, ...]:
        """The values in force, at least one; the one that came last is the newest."""
        self._look()
        return self._values

    def accepted(self) -> tuple[str, ...]:
        """These, and the values that left the file less than `RETIRED_S` ago."""
        self._look()
        if not self._retired:
            return self._values
        now_s = self._clock()
        self._retired = {value: end for value, end in self._retired.items() if end > now_s}
        return (*self._values, *self._retired)

    def latest(self) -> tuple[str, ...]:
        """The values in force, of a file that is looked at now: where a wrong one costs a lot."""
        self._looked_s = float("-inf")
        return self.values()

    def _look(self) -> None:
        if self._path is None:
            return
        now_s = self._clock()
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        try:
            stamp = file_stamp(self._path)
            if stamp == self._stamp:
                return
            values = values_of(self._path.read_text(encoding="utf-8"))
            for value in values:
                self._check(value)
        except (OSError, ValueError) as error:
            # Each fault is logged once; the text of a value is in none of them.
            known = isinstance(error, OSError) and error.strerror
            why = known or "it holds no value that can be used"
            if why != self._fault:
                self._fault = why
                log.error(
                    "%s cannot be used (%s). The values read before stay in force; put the secret "
                    "back into the file.", self._path, why,
                )  # fmt: skip
            return
        self._stamp, self._fault = stamp, ""
        if values == self._values:
            return
        self._retired |= {old: now_s + RETIRED_S for old in self._values}
        self._retired = {old: end for old, end in self._retired.items() if old not in values}
        self._values = values
        log.info("%s was read again: it holds %d values", self.name, len(values))
