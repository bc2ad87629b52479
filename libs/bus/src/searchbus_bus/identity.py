"""The signed actor: the edge signs the `Actor` header, workers verify the signature.

`Actor-Sig: <expiry, ms of the epoch>.<base64url of an Ed25519 signature>` over
`searchbus/actor/1`, a line break, the expiry, a line break, and the `Actor` header's text. Only the
edge has the private key; a worker that sends a request on a caller's behalf passes on the signature
that it received. A signature is valid for five minutes, longer than any request.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from contextvars import ContextVar

from cachetools import LRUCache, TTLCache
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from searchbus_contracts import ErrorCode, Fault

__all__ = ["ActorSigner", "ActorVerifier", "new_actor_keys", "received_signature"]

_VALID_S = 300.0
_REUSED_S = 60.0
_CACHED = 4096

received_signature: ContextVar[tuple[str, str] | None] = ContextVar(
    "received_signature", default=None
)
"""(Actor header, its signature) of the request that the current task handles."""


def new_actor_keys() -> tuple[str, str]:
    """Generate a (private, public) key pair, each as base64url text."""
    private = Ed25519PrivateKey.generate()
    return _text(private.private_bytes_raw()), _text(private.public_key().public_bytes_raw())


class ActorSigner:
    """Signs `Actor` headers. Raises ValueError where the text is not a valid private key."""

    def __init__(self, private_key: str, *, clock: Callable[[], float] = time.time) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(_raw(private_key))
        self._clock = clock
        self._signatures: TTLCache[str, str] = TTLCache(_CACHED, ttl=_REUSED_S, timer=clock)

    def sign(self, header: str) -> str:
        """The `Actor-Sig` of a header. One signature is used again for up to a minute."""
        signature = self._signatures.get(header)
        if signature is None:
            expiry_ms = str(int((self._clock() + _VALID_S) * 1000))
            signature = f"{expiry_ms}.{_text(self._key.sign(_message(expiry_ms, header)))}"
            self._signatures[header] = signature
        return signature


class ActorVerifier:
    """Verifies `Actor` headers. Raises ValueError where the text is not a valid public key."""

    def __init__(self, public_key: str, *, clock: Callable[[], float] = time.time) -> None:
        self._key = Ed25519PublicKey.from_public_bytes(_raw(public_key))
        self._clock = clock
        self._expiries_ms: LRUCache[tuple[str, str], float] = LRUCache(_CACHED)

    def verify(self, header: str, signature: str) -> None:
        """Raise Fault(forbidden) unless the edge signed the header and the signature is valid."""
        expiry_ms = self._expiries_ms.get((header, signature))
        if expiry_ms is None:
            expiry_ms = self._check(header, signature)
            self._expiries_ms[header, signature] = expiry_ms
        if expiry_ms < self._clock() * 1000:
            raise _refused()

    def _check(self, header: str, signature: str) -> float:
        expiry_ms, _, encoded = signature.partition(".")
        if not (expiry_ms.isascii() and expiry_ms.isdigit() and len(expiry_ms) < 16):
            raise _refused()
        try:
            self._key.verify(_raw(encoded), _message(expiry_ms, header))
        except (InvalidSignature, ValueError):
            raise _refused() from None
        return float(expiry_ms)


def _message(expiry_ms: str, header: str) -> bytes:
    return f"searchbus/actor/1\n{expiry_ms}\n{header}".encode()


def _refused() -> Fault:
    return Fault(ErrorCode.FORBIDDEN, "The request's actor is not signed by an edge of this bus.")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _raw(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
