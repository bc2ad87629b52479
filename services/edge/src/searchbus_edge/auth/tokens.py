"""Bearer tokens: JWTs signed by the configured identity provider (RFC 7519, RFC 9068, RFC 8725).

Accepted is what is signed by an asymmetric algorithm with a key of the issuer, of exactly this
issuer, for this resource, and valid now. Everything else is one refusal: invalid_token.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError

from searchbus_contracts import Actor

from .identity import Identity, Unauthenticated
from .jwks import ALGORITHMS, KeySource
from .roles import DEFAULT_PATHS, roles_of

__all__ = ["MAX_TOKEN_CHARS", "TokenVerifier", "verify_signature"]

MAX_TOKEN_CHARS = 16_384
LEEWAY_S = 30.0
_CACHE_S = 60.0
_CACHED = 10_000
_TYPES = ("jwt", "at+jwt", "application/at+jwt", "application/jwt")
_REFUSED = "The token is not valid here."


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
    """Turns tokens into identities.

    Args:
        audiences: of a request's resource; one of them must be in `aud`.
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
        self._known: OrderedDict[bytes, tuple[Identity, frozenset[str]]] = OrderedDict()

    async def verify(self, token: str, audiences: Iterable[str]) -> Identity:
        """Who the bearer is; raises Unauthenticated.

        A verified token is remembered for a minute: a warm one costs a hash and a look-up.
        """
        if len(token) > MAX_TOKEN_CHARS or not token.isascii():
            raise Unauthenticated(_REFUSED)
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known.get(digest)
        now_s = self._clock()
        if known is None or known[0].expires_s <= now_s:
            known = await self._verify(token, now_s)
            self._known[digest] = known
            while len(self._known) > _CACHED:
                self._known.popitem(last=False)
        identity, granted = known
        if granted.isdisjoint(audiences):
            raise Unauthenticated("The token was not issued for this resource (aud).")
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
        if not isinstance(claims, dict) or claims.get("iss") != self._issuer:
            raise Unauthenticated(_REFUSED)
        expires_s = _number(claims, "exp")
        if expires_s is None or expires_s + LEEWAY_S <= now_s:
            raise Unauthenticated("The token has expired.")
        for name in ("nbf", "iat"):
            begins_s = _number(claims, name)
            if name in claims and (begins_s is None or begins_s - LEEWAY_S > now_s):
                raise Unauthenticated("The token is not valid yet.")
        subject = claims.get("sub") or claims.get("client_id") or claims.get("azp")
        if not isinstance(subject, str) or not subject or len(subject) > 256:
            raise Unauthenticated(_REFUSED)
        given = claims.get("aud")
        audiences = [given] if isinstance(given, str) else given
        if not isinstance(audiences, list) or not all(isinstance(a, str) for a in audiences):
            raise Unauthenticated("The token was not issued for this resource (aud).")
        actor = Actor(subject=subject, roles=roles_of(claims, self._role_paths))
        until_s = min(expires_s + LEEWAY_S, now_s + _CACHE_S)
        return Identity(actor, until_s), frozenset(audiences)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a claim stands twice")
    return found


def _number(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e12 else None
