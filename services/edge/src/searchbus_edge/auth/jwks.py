"""The public keys of an identity provider.

Fetched at most once every ten seconds; the last key set stays valid for a day while the provider is
unreachable. A caller waits for the provider only where no known key can have signed the token: keys
older than ten minutes are fetched again in the background.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey, import_key

__all__ = ["ALGORITHMS", "Jwks", "KeySource", "PublicKey"]

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
_MAX_BYTES = 512 * 1024
_MIN_RSA_BITS = 2048
_PRIVATE = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth"))


class KeySource(Protocol):
    """A source of the keys that may have signed a token."""

    async def keys(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """The candidates, possibly none."""


class Jwks:
    """The keys of a JWKS address.

    Args:
        issuer: exactly as in the tokens.
        url: of the JWKS; None: taken from the issuer's metadata (OpenID Connect, RFC 8414).
        clock: seconds, monotonic.
    """

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
        self._fetching = asyncio.Lock()
        self._behind: asyncio.Task[None] | None = None

    async def keys(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """The keys of this id and algorithm; waits for the provider where there is none."""
        found = self._fitting(kid, algorithm)
        age_s = self._clock() - self._fetched_s
        if not found or age_s > _STALE_S:
            await self._refresh()
            is_valid = self._clock() - self._fetched_s <= _STALE_S
            return self._fitting(kid, algorithm) if is_valid else []
        if age_s > _FRESH_S and (self._behind is None or self._behind.done()):
            self._behind = asyncio.create_task(self._refresh())
        return found

    async def close(self) -> None:
        """End a fetch that runs, and close the connections."""
        if self._behind is not None:
            self._behind.cancel()
            await asyncio.gather(self._behind, return_exceptions=True)
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

    async def _refresh(self) -> None:
        """Fetch the keys, at most once in ten seconds, since anybody can send unknown key ids."""
        async with self._fetching:
            now_s = self._clock()
            if now_s - self._tried_s < _MIN_INTERVAL_S:
                return
            self._tried_s = now_s
            try:
                raw = await self._get(self._url or await self._discover())
                self._keys = list(_usable(raw))
                self._fetched_s = now_s
                log.info("%d signing keys of %s", len(self._keys), self._issuer)
            except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
                log.warning(
                    "the signing keys of %s could not be fetched: %s",
                    self._issuer,
                    type(error).__name__,
                )

    async def _discover(self) -> str:
        base = self._issuer.rstrip("/")
        for path in (
            "/.well-known/openid-configuration",
            "/.well-known/oauth-authorization-server",
        ):
            try:
                found = await self._get(base + path)
            except (httpx.HTTPError, ValueError):
                continue
            if isinstance(found, dict) and found.get("issuer") == self._issuer:
                return str(found["jwks_uri"])
        raise ValueError("the issuer publishes no metadata")

    async def _get(self, url: str) -> Any:
        response = await self._client.get(url, headers={"Accept": "application/json"})
        response.raise_for_status()
        if len(response.content) > _MAX_BYTES:
            raise ValueError("the response is too large")
        return json.loads(response.content)


def _usable(raw: Any) -> list[tuple[dict[str, Any], PublicKey]]:
    """The public signing keys; an unusable key is left out."""
    found: list[tuple[dict[str, Any], PublicKey]] = []
    for item in raw["keys"]:
        if not isinstance(item, dict) or item.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        if item.get("use") not in (None, "sig"):
            continue
        if "key_ops" in item and "verify" not in item["key_ops"]:
            continue
        public = {name: value for name, value in item.items() if name not in _PRIVATE}
        try:
            key = import_key(public)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, RSAKey) and key.raw_value.key_size < _MIN_RSA_BITS:
            continue
        if isinstance(key, RSAKey | ECKey | OKPKey):
            found.append((item, key))
    return found
