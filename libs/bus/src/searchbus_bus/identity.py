"""The signed actor: an edge signs who calls, for one request, and workers verify it.

A signature covers the subject, the request's id and its body, and is valid until the request's
deadline, at most five minutes. With it comes a key with which the receiver passes the caller on: to
one further request, with no role that it did not receive. The wire is in proto/README.md §4.4.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from cachetools import TTLCache
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from searchbus_contracts import Actor, ErrorCode, Fault, decode, encode
from searchbus_contracts.headers import (
    ACTOR,
    ACTOR_GRANT,
    ACTOR_KEY,
    ACTOR_SIG,
    MAX_ACTOR_CHARS,
)

_VALID_S = 300.0
_LATE_S = 5.0
"""After its deadline a request is still read, and refused as late."""
_KEY_REUSED_S = 60.0
_KEYS = 1024
_KEY_BYTES = 32
_MAX_GRANT_CHARS = 2 * MAX_ACTOR_CHARS
"""The text of an actor has its quotes escaped in a grant."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The request that a signature is for; the hash of its whole body in hex."""

    subject: str
    req_id: str
    sha256: str

    @classmethod
    def of(cls, subject: str, req_id: str, body: bytes) -> Sent:
        """The request with this body."""
        return cls(subject, req_id, hashlib.sha256(body).hexdigest())


class Grant(Struct, frozen=True, kw_only=True):
    """What an edge signed: the request that a worker passes on, and the headers that came with it.

    Its JSON is the header `Actor-Grant` of the request that is passed on.
    """

    actor: str
    signature: str
    subject: str
    req_id: str
    sha256: str

    @property
    def sent(self) -> Sent:
        """The request that the edge signed."""
        return Sent(self.subject, self.req_id, self.sha256)


@dataclass(frozen=True, slots=True)
class Delegation:
    """A grant, and the key with which its receiver signs requests for the same caller."""

    grant: Grant
    key: str

    def headers(self, actor: Actor, sent: Sent) -> dict[str, str] | None:
        """The headers of a request for the caller; `None` for another caller, or for more roles."""
        if not _narrower(actor, Actor.from_header(self.grant.actor)):
            return None
        header = actor.to_header()
        end_ms = self.grant.signature.partition(".")[0]
        key = Ed25519PrivateKey.from_private_bytes(_raw(self.key))
        signature = _sign(key, end_ms, "", sent, header)
        return {ACTOR: header, ACTOR_SIG: signature, ACTOR_GRANT: encode(self.grant).decode()}


received_delegation: ContextVar[Delegation | None] = ContextVar("received_delegation", default=None)
"""With which the current task may pass on the caller of the request that it handles."""


def new_actor_keys() -> tuple[str, str]:
    """Generate a (private, public) key pair, each as base64url text."""
    return _pair(Ed25519PrivateKey.generate())


def public_actor_key(private: str) -> str:
    """The public key of a private one; raises ValueError where it is none."""
    return _pair(Ed25519PrivateKey.from_private_bytes(_raw(private)))[1]


class ActorSigner:
    """Signs `Actor` headers by a key, or the first one of what returns them; raises ValueError."""

    def __init__(
        self,
        private_key: str | Callable[[], Sequence[str]],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._texts = _reader(private_key)
        self._text = self._texts()[0]
        self._key = Ed25519PrivateKey.from_private_bytes(_raw(self._text))
        self._clock = clock
        # A key for each subject, of requests within a minute: making one costs more than signing.
        self._keys: TTLCache[str, tuple[str, str]] = TTLCache(_KEYS, ttl=_KEY_REUSED_S, timer=clock)

    def headers(self, actor: Actor, sent: Sent, *, timeout_s: float = _VALID_S) -> dict[str, str]:
        """The headers of a request for the actor, which expire soon after its `timeout_s`."""
        text = self._texts()[0]
        if text != self._text:
            self._key = Ed25519PrivateKey.from_private_bytes(_raw(text))
            self._text = text
        pair = self._keys.get(sent.subject)
        if pair is None:
            pair = self._keys[sent.subject] = new_actor_keys()
        private, public = pair
        header = actor.to_header()
        valid_s = min(max(0.0, timeout_s) + _LATE_S, _VALID_S)
        end_ms = str(int((self._clock() + valid_s) * 1000))
        signature = _sign(self._key, end_ms, public, sent, header)
        return {ACTOR: header, ACTOR_SIG: signature, ACTOR_KEY: private}


class ActorVerifier:
    """Verifies `Actor` headers by a key, or any one of what returns them; raises ValueError."""

    def __init__(
        self,
        public_key: str | Callable[[], Sequence[str]],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read = _reader(public_key)
        self._texts: Sequence[str] = ()
        self._keys: tuple[Ed25519PublicKey, ...] = ()
        self._clock = clock
        self._edges_keys()

    def _edges_keys(self) -> tuple[Ed25519PublicKey, ...]:
        texts = self._read()
        if texts != self._texts:
            self._keys = tuple(Ed25519PublicKey.from_public_bytes(_raw(text)) for text in texts)
            self._texts = texts
        return self._keys

    def verify(self, headers: Mapping[str, str], sent: Sent) -> Delegation | None:
        """Check the actor of a request; what its receiver may pass the caller on with. Raises
        Fault(forbidden) unless an edge signed for this very request, or a worker that it reached
        passes its caller on in time."""
        header, signature = headers.get(ACTOR, ""), headers.get(ACTOR_SIG, "")
        passed_on = headers.get(ACTOR_GRANT)
        if passed_on is None:
            self._check(self._edges_keys(), header, signature, sent)
            key = headers.get(ACTOR_KEY, "")
            if not _is_key(key):
                return None
            grant = Grant(
                actor=header, signature=signature, subject=sent.subject, req_id=sent.req_id,
                sha256=sent.sha256,
            )  # fmt: skip
            return Delegation(grant, key)
        if len(passed_on) > _MAX_GRANT_CHARS:
            raise _refused()
        try:
            grant = decode(passed_on.encode("utf-8", "replace"), Grant)
        except Fault:
            raise _refused() from None
        public = self._check(self._edges_keys(), grant.actor, grant.signature, grant.sent)
        try:
            received = Actor.from_header(grant.actor)
            key_of_grant = Ed25519PublicKey.from_public_bytes(_raw(public))
        except (Fault, ValueError):
            raise _refused() from None
        self._check((key_of_grant,), header, signature, sent)
        if not _narrower(Actor.from_header(header), received):
            raise _refused()
        # It goes no further: there is no key with which the receiver could sign.
        return None

    def _check(
        self, keys: Sequence[Ed25519PublicKey], header: str, signature: str, sent: Sent
    ) -> str:
        """The public key that a valid signature names; empty where it names none."""
        end_ms, _, rest = signature.partition(".")
        public, _, encoded = rest.partition(".")
        if not (end_ms.isascii() and end_ms.isdigit() and len(end_ms) < 16):
            raise _refused()
        text = _signed_text(end_ms, public, sent, header)
        if not any(_verifies(key, encoded, text) for key in keys):
            raise _refused()
        if int(end_ms) < self._clock() * 1000:
            raise _refused()
        return public


def _reader(given: str | Callable[[], Sequence[str]]) -> Callable[[], Sequence[str]]:
    if not isinstance(given, str):
        return given
    texts = (given,)
    return lambda: texts


def _verifies(key: Ed25519PublicKey, signature: str, text: bytes) -> bool:
    try:
        key.verify(_raw(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True


def _narrower(actor: Actor, received: Actor) -> bool:
    """Whether this is the caller that was received, with no further role or endpoint."""
    roles = set(received.roles)
    return (
        actor.subject == received.subject
        and ("*" in roles or roles.issuperset(actor.roles))
        and received.endpoint in (None, actor.endpoint)
    )


def _sign(key: Ed25519PrivateKey, end_ms: str, public: str, sent: Sent, header: str) -> str:
    signature = key.sign(_signed_text(end_ms, public, sent, header))
    return f"{end_ms}.{public}.{_text(signature)}"


def _signed_text(end_ms: str, public: str, sent: Sent, header: str) -> bytes:
    lines = ("searchbus/actor/2", end_ms, public, sent.subject, sent.req_id, sent.sha256, header)
    return "\n".join(lines).encode("utf-8", "replace")


def _refused() -> Fault:
    return Fault(
        ErrorCode.FORBIDDEN,
        "The request's actor is not signed by an edge of this bus for it. "
        "Send the request through an edge.",
    )


def _pair(key: Ed25519PrivateKey) -> tuple[str, str]:
    return _text(key.private_bytes_raw()), _text(key.public_key().public_bytes_raw())


def _is_key(text: str) -> bool:
    try:
        return len(_raw(text)) == _KEY_BYTES
    except ValueError:
        return False


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _raw(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
