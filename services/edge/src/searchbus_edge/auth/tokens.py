"""Bearer tokens: JWTs signed by the configured identity provider (RFC 7519, RFC 9068, RFC 8725).

A token is accepted if it is signed with a key of the issuer and an asymmetric algorithm, issued by
exactly this issuer for this resource, and valid now. Any other is refused as invalid_token.

The issuer's keys are fetched ten seconds after the last fetch ended at the soonest; the last key
set stays valid for a day while the provider is unreachable. A caller waits for the provider, five
seconds at most, only where no known key can have signed the token: keys older than ten minutes are
fetched again in the background.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpx
from cachetools import LRUCache
from joserfc import jws
from joserfc.errors import ClaimError, JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey, import_key
from joserfc.jwt import JWTClaimsRegistry

from searchbus_bus import end_task
from searchbus_contracts import Actor

from .identity import DEFAULT_PATHS, TENANT, Identity, UnauthenticatedError, roles_of

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
log = logging.getLogger("searchbus.edge.auth")
PublicKey = RSAKey | ECKey | OKPKey
ALGORITHMS = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP", "Ed25519": "OKP",
}  # fmt: skip
"""Asymmetric only: with HMAC a public key would be a secret."""
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_FRESH_S = 600.0
_STALE_S = 24 * 3600.0
_MIN_INTERVAL_S = 10.0
_FETCH_S = 10.0
"""For the metadata and the keys together."""
_WAIT_S = 5.0
"""The most that one caller waits; the fetch goes on for the next."""
_MAX_BYTES = 512 * 1024
_MIN_RSA_BITS = 2048
_PRIVATE = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth"))


async def verify_signature(token: str, source: Jwks) -> bytes:
    """The payload of a compact JWS that one of the keys signed; raises UnauthenticatedError."""
    try:
        header = jws.extract_compact(token.encode("ascii")).headers()
    except (JoseError, ValueError, RecursionError, TypeError):
        raise UnauthenticatedError(_REFUSED) from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise UnauthenticatedError(_REFUSED)
    if not isinstance(kid, str | None) or "crit" in header or "b64" in header:
        raise UnauthenticatedError(_REFUSED)
    for key in await source.keys(kid, algorithm):
        try:
            return bytes(jws.deserialize_compact(token, key, algorithms=[algorithm]).payload)
        except (JoseError, ValueError, TypeError):
            continue
    raise UnauthenticatedError(_REFUSED)


class TokenVerifier:
    """Verifies tokens of exactly this issuer; `role_paths`: where roles are, see identity.py."""

    def __init__(
        self,
        source: Jwks,
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
        """The bearer of a token whose `aud` has one of the audiences; raises UnauthenticatedError.
        A verified token is cached for a minute, after which its signature is checked again."""
        if len(token) > MAX_TOKEN_CHARS or not token.isascii():
            raise UnauthenticatedError(_REFUSED)
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known.get(digest)
        now_s = self._clock()
        if known is None or known[0].expires_s <= now_s:
            known = await self._verify(token, now_s)
            self._known[digest] = known
        identity, granted = known
        if granted.isdisjoint(audiences):
            raise UnauthenticatedError(_NOT_FOR_US)
        return identity

    async def _verify(self, token: str, now_s: float) -> tuple[Identity, frozenset[str]]:
        payload = await verify_signature(token, self._source)
        header = jws.extract_compact(token.encode()).headers()
        if str(header.get("typ", "jwt")).lower() not in _TYPES:
            raise UnauthenticatedError(_REFUSED)
        try:
            claims = json.loads(payload, object_pairs_hook=_no_duplicates)
            # Half a surrogate pair has no UTF-8: such a caller could neither be sent nor logged.
            json.dumps(claims, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise UnauthenticatedError(_REFUSED) from None
        if not isinstance(claims, dict):
            raise UnauthenticatedError(_REFUSED)
        self._check(claims, now_s)
        subject = claims.get("sub") or claims.get("client_id") or claims.get("azp")
        if not isinstance(subject, str) or not subject or len(subject) > 256:
            raise UnauthenticatedError(_REFUSED)
        if subject.startswith(TENANT):  # who borrows has limits and sessions of its own
            subject = f"sub:{subject}"
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
            raise UnauthenticatedError(_MESSAGES.get(error.claim, _REFUSED)) from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a claim occurs twice")
    return found


class Jwks:
    """The keys of a JWKS address; without `url` it is taken from the issuer's metadata (OpenID
    Connect, RFC 8414)."""

    def __init__(
        self,
        issuer: str,
        url: str | None = None,
        *,
        client: httpx.AsyncClient | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._url = url
        self._client = client or httpx.AsyncClient(timeout=5.0, trust_env=False)
        self._clock = clock
        self._keys: list[tuple[dict[str, Any], PublicKey]] = []
        self._fetched_s = float("-inf")
        self._tried_s = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def keys(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """The keys of this id and algorithm; waits for the provider where there is none."""
        found = self._fitting(kid, algorithm)
        age_s = self._clock() - self._fetched_s
        if found and age_s <= _FRESH_S:
            return found
        fetching = self._refresh()
        if not found or age_s > _STALE_S:
            await asyncio.wait({fetching}, timeout=_WAIT_S)
            is_valid = self._clock() - self._fetched_s <= _STALE_S
            return self._fitting(kid, algorithm) if is_valid else []
        return found

    async def close(self) -> None:
        """End a fetch that runs, and close the connections."""
        await end_task(self._fetching)
        await self._client.aclose()

    def _fitting(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        kind = ALGORITHMS[algorithm]
        return [
            key
            for raw, key in self._keys
            if raw["kty"] == kind
            and (kid is None or raw.get("kid") == kid)
            and raw.get("alg") in (None, algorithm)
            and raw.get("crv") in (None, _CURVES.get(algorithm, raw.get("crv")))
        ]

    def _refresh(self) -> asyncio.Task[None]:
        """The fetch that runs, or a new one; the last one for ten seconds after its end, since
        anybody can send unknown key ids."""
        task = self._fetching
        if task is None or (task.done() and self._clock() - self._tried_s >= _MIN_INTERVAL_S):
            task = self._fetching = asyncio.create_task(self._fetch())
        return task

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(_FETCH_S):
                raw = await self._get(self._url or await self._discover())
            self._keys = list(_usable(raw))
            self._fetched_s = self._clock()
            log.info("%d signing keys of %s", len(self._keys), self._issuer)
        except Exception as error:  # the provider may answer anything
            fault = type(error).__name__
            log.warning("the signing keys of %s could not be fetched: %s", self._issuer, fault)
        finally:
            self._tried_s = self._clock()

    async def _discover(self) -> str:
        base = self._issuer.rstrip("/")
        for name in ("openid-configuration", "oauth-authorization-server"):
            try:
                found = await self._get(f"{base}/.well-known/{name}")
            except (httpx.HTTPError, ValueError):
                continue
            if isinstance(found, dict) and found.get("issuer") == self._issuer:
                return str(found["jwks_uri"])
        raise ValueError("the issuer publishes no metadata")

    async def _get(self, url: str) -> Any:
        body = bytearray()
        async with self._client.stream(
            "GET", url, headers={"Accept": "application/json"}
        ) as response:
            response.raise_for_status()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _MAX_BYTES:
                    raise ValueError("the response is too large")
        return json.loads(body)


def _usable(raw: Any) -> list[tuple[dict[str, Any], PublicKey]]:
    """The public signing keys; an unusable key is left out."""
    found: list[tuple[dict[str, Any], PublicKey]] = []
    for item in raw["keys"]:
        if not isinstance(item, dict) or item.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        if item.get("use") not in (None, "sig") or "verify" not in item.get("key_ops", ["verify"]):
            continue
        public = {name: value for name, value in item.items() if name not in _PRIVATE}
        try:
            key = import_key(public)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        large = not isinstance(key, RSAKey) or key.raw_value.key_size >= _MIN_RSA_BITS
        if large and isinstance(key, RSAKey | ECKey | OKPKey):
            found.append((item, key))
    return found
