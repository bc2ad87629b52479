"""Bearer tokens: JWTs signed by the configured identity provider (RFC 7519, RFC 9068, RFC 8725).

A token is accepted if it is signed with a key of the issuer and an asymmetric algorithm, issued by
exactly this issuer for this resource, and valid now. Any other is refused as invalid_token.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cachetools import LRUCache
from joserfc import jws
from joserfc.errors import ClaimError, JoseError
from joserfc.jwt import JWTClaimsRegistry

from searchbus_contracts import Actor

from .identity import Identity, Unauthenticated
from .jwks import ALGORITHMS, KeySource
from .roles import DEFAULT_PATHS, roles_of

__all__ = ["MAX_TOKEN_CHARS", "TokenVerifier", "verify_signature"]

MAX_TOKEN_CHARS = 16_384
LEEWAY_S = 30
_CACHE_S = 60.0
_CACHED = 10_000
_TYPES = ("jwt", "at+jwt", "application/at+jwt", "application/jwt")
_REFUSED = "The token is not valid here."
_NOT_FOR_US = "The token was not issued for this resource (aud)."
_MESSAGES = {
    "exp": "The token has expired.",
    "nbf": "The token is not valid yet.",
    "iat": "The token is not valid yet.",
    "aud": _NOT_FOR_US,
}
"""By claim; a message names what is wrong and never how near the token was."""


async def verify_signature(token: str, source: KeySource) -> bytes:
    """The payload of a compact JWS signed with one of the source's keys; raises Unauthenticated."""
    try:
        parsed = jws.extract_compact(token.encode("ascii"))
        header = parsed.headers()
    except (JoseError, ValueError, UnicodeError, RecursionError, TypeError):
        raise Unauthenticated(_REFUSED) from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS or "crit" in header or "b64" in header:
        raise Unauthenticated(_REFUSED)
    if kid is not None and not isinstance(kid, str):
        raise Unauthenticated(_REFUSED)
    for key in await source.keys(kid, algorithm):
        try:
            return bytes(jws.deserialize_compact(token, key, algorithms=[algorithm]).payload)
        except (JoseError, ValueError, TypeError):
            continue
    raise Unauthenticated(_REFUSED)


class TokenVerifier:
    """Verifies tokens.

    Args:
        issuer: the exact value of `iss`.
        role_paths: where the roles are, see roles.py.
        clock: seconds of the epoch.
    """

    def __init__(
        self,
        source: KeySource,
        issuer: str,
        *,
        role_paths: Sequence[str] = DEFAULT_PATHS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._issuer = issuer
        self._role_paths = tuple(role_paths)
        self._clock = clock
        self._known: LRUCache[bytes, tuple[Identity, frozenset[str]]] = LRUCache(_CACHED)

    async def verify(self, token: str, audiences: Iterable[str]) -> Identity:
        """The bearer of a token; raises Unauthenticated.

        A verified token is cached for a minute, after which its signature is checked again.

        Args:
            audiences: of the requested resource; one of them must be in `aud`.
        """
        if len(token) > MAX_TOKEN_CHARS or not token.isascii():
            raise Unauthenticated(_REFUSED)
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known.get(digest)
        now_s = self._clock()
        if known is None or known[0].expires_s <= now_s:
            known = await self._verify(token, now_s)
            self._known[digest] = known
        identity, granted = known
        if granted.isdisjoint(audiences):
            raise Unauthenticated(_NOT_FOR_US)
        return identity

    async def _verify(self, token: str, now_s: float) -> tuple[Identity, frozenset[str]]:
        payload = await verify_signature(token, self._source)
        header = jws.extract_compact(token.encode()).headers()
        if str(header.get("typ", "jwt")).lower() not in _TYPES:
            raise Unauthenticated(_REFUSED)
        try:
            claims = json.loads(payload, object_pairs_hook=_no_duplicates)
        except (ValueError, RecursionError):
            raise Unauthenticated(_REFUSED) from None
        if not isinstance(claims, dict):
            raise Unauthenticated(_REFUSED)
        self._check(claims, now_s)
        subject = claims.get("sub") or claims.get("client_id") or claims.get("azp")
        if not isinstance(subject, str) or not subject or len(subject) > 256:
            raise Unauthenticated(_REFUSED)
        given = claims["aud"]
        audiences = [given] if isinstance(given, str) else given
        actor = Actor(subject=subject, roles=roles_of(claims, self._role_paths))
        until_s = min(claims["exp"] + LEEWAY_S, now_s + _CACHE_S)
        return Identity(actor, until_s), frozenset(audiences)

    def _check(self, claims: dict[str, Any], now_s: float) -> None:
        """Check issuer, times and the form of the audience; which audience, `verify` checks."""
        registry = JWTClaimsRegistry(
            now=now_s,  # type: ignore[arg-type]  # a fraction counts too
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self._issuer},
            exp={"essential": True},
            aud={"essential": True},
        )
        try:
            registry.validate(claims)
        except ClaimError as error:
            raise Unauthenticated(_MESSAGES.get(error.claim, _REFUSED)) from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a claim occurs twice")
    return found
