"""How a connection signs in to NATS: by a seed of its user, read at each connect.

While a key is rotated its secret holds two seeds. The first is used; when the server refuses one,
the next connect uses the next. So neither side has to change first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from .. import telemetry

log = logging.getLogger("searchbus.bus")


class Seeds:
    """The seeds that a secret (`setting`) of a `user` holds now; what the server said to them."""

    def __init__(
        self,
        read: Callable[[], Sequence[str]],
        *,
        user: str = "this program",
        setting: str = "nats_nkey_seed",
    ) -> None:
        self._read = read
        self._user = user
        self._setting = setting
        self._in_use = ""
        self._refused: set[str] = set()
        self.fault = ""
        """What is wrong while the server refuses each of them: a line that says what to do."""

    @classmethod
    def of(cls, seed: str, **names: str) -> Seeds:
        """One seed that never changes; `names` as above."""
        seeds = (seed,)
        return cls(lambda: seeds, **names)

    def next(self) -> str:
        """The seed for a connect: the last one that was accepted, or one that was not refused."""
        seeds = self._read()
        if self._refused.issuperset(seeds):  # each in turn, until the server accepts one
            self._refused = set()
        if self._in_use not in seeds or self._in_use in self._refused:
            self._in_use = next(seed for seed in seeds if seed not in self._refused)
        return self._in_use

    @property
    def has_another(self) -> bool:
        """Whether there is a seed that the server has not refused."""
        return not self._refused.issuperset(self._read())

    def accepted(self) -> None:
        """The server knows the seed."""
        if self.fault:
            log.info("NATS accepts the key of %s again", self._user)
        self._refused, self.fault = set(), ""

    def refused(self, server: str) -> None:
        """The server does not know the seed."""
        self._refused.add(self._in_use)
        if self.has_another:
            return
        telemetry.count_refused_credential(self._setting)
        import nkeys  # here, as in nats-py: few buses have keys

        public = nkeys.from_seed(self._in_use.encode()).public_key.decode()
        fault = (
            f"NATS at {server} refuses the key of {self._user}: {self._setting}, "
            f"public key {public}. Give the server the accounts that `searchbus nats-config` "
            "wrote and reload it, or put the seed of that folder into the service's secrets."
        )
        if fault != self.fault:
            self.fault = fault
            log.error("%s", fault)
