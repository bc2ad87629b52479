"""Who a request is for, sealed: the edge signs the `Actor` header, workers verify it.

`Actor-Sig: <end, ms of the epoch>.<base64url of an Ed25519 signature>` over
`searchbus/actor/1`, a line break, the end, a line break, and the `Actor` header's text. Only the
edge has the private key; a worker that asks another on a caller's behalf passes on what it got. A
signature lives five minutes, longer than any request.
"""

from __future__ import annotations

import base64
import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from searchbus_contracts import ErrorCode, Fault

__all__ = ["ActorSigner", "ActorVerifier", "new_actor_keys", "received_signature"]

_LIFE_S = 300.0
_SIGN_AGAIN_S = 60.0
_CACHED = 4096

received_signature: ContextVar[tuple[str, str] | None] = ContextVar(
    "received_signature", default=None
)
"""(Actor header, its signature) of the request that the current task handles."""


def new_actor_keys() -> tuple[str, str]:
    """A fresh (private, public) pair, each as base64url text."""
    private = Ed25519PrivateKey.generate()
    return _text(private.private_bytes_raw()), _text(private.public_key().public_bytes_raw())


class ActorSigner:
    """Signs `Actor` headers; raises ValueError for a key that is none."""

    def __init__(self, private_key: str, *, clock: Callable[[], float] = time.time) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(_raw(private_key))
        self._clock = clock
        self._made: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def sign(self, header: str) -> str:
        """The `Actor-Sig` of a header; made anew once a minute."""
        now_s = self._clock()
        made = self._made.get(header)
        if made is None or made[0] < now_s - _SIGN_AGAIN_S:
            end = str(int((now_s + _LIFE_S) * 1000))
            made = (now_s, f"{end}.{_text(self._key.sign(_message(end, header)))}")
            self._made[header] = made
            while len(self._made) > _CACHED:
                self._made.popitem(last=False)
        return made[1]


class ActorVerifier:
    """Verifies `Actor` headers; raises ValueError for a key that is none."""

    def __init__(self, public_key: str, *, clock: Callable[[], float] = time.time) -> None:
        self._key = Ed25519PublicKey.from_public_bytes(_raw(public_key))
        self._clock = clock
        self._good: OrderedDict[tuple[str, str], float] = OrderedDict()

    def verify(self, header: str, signature: str) -> None:
        """Raise Fault(forbidden) unless the edge signed the header and the time is not over."""
        now_ms = self._clock() * 1000
        known = self._good.get((header, signature))
        if known is None:
            known = self._check(header, signature)
            self._good[header, signature] = known
            while len(self._good) > _CACHED:
                self._good.popitem(last=False)
        if known < now_ms:
            raise _refused()

    def _check(self, header: str, signature: str) -> float:
        end, _, seal = signature.partition(".")
        try:
            if not (end.isascii() and end.isdigit() and len(end) < 16):
                raise _refused()
            self._key.verify(_raw(seal), _message(end, header))
        except (InvalidSignature, ValueError):
            raise _refused() from None
        return float(end)


def _message(end: str, header: str) -> bytes:
    return f"searchbus/actor/1\n{end}\n{header}".encode()


def _refused() -> Fault:
    return Fault(ErrorCode.FORBIDDEN, "The request's actor is not signed by an edge of this bus.")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _raw(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
