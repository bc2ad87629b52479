"""What access control costs on a warm token: CPU of the authenticator, beside a token seen for the first time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey

from searchbus_edge.auth.authenticator import Authenticator
from searchbus_edge.auth.tokens import TokenVerifier

ROUNDS = 20_000
ISSUER = "https://idp.example.org"
RESOURCE = "https://search.example.org"


class _Key:
    def __init__(self, key: RSAKey) -> None:
        self._key = key

    async def keys(self, kid: str | None, algorithm: str) -> list[Any]:
        return [self._key]


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Microseconds of CPU a request."""
    key = RSAKey.generate_key(2048, {"kid": "k"}, private=True)
    now = int(time.time())

    def token(number: int) -> str:
        claims = {"iss": ISSUER, "sub": f"user{number}", "aud": f"{RESOURCE}/mcp", "exp": now + 600,
                  "realm_access": {"roles": ["ROLE_MCP-WEB-SEARCH", "A", "B"]}}  # fmt: skip
        return jwt.encode({"alg": "RS256", "kid": "k"}, claims, key)

    authenticator = Authenticator(tokens=TokenVerifier(_Key(key), ISSUER), resource_url=RESOURCE)
    warm = f"Bearer {token(0)}"
    await authenticator.identify(warm, "/mcp")
    started_s = time.process_time()
    for _ in range(ROUNDS):
        await authenticator.identify(warm, "/mcp")
    warm_s = time.process_time() - started_s
    fresh = [f"Bearer {token(n)}" for n in range(1, 201)]
    started_s = time.process_time()
    for headers in fresh:
        await authenticator.identify(headers, "/mcp")
    fresh_s = time.process_time() - started_s
    return {
        "warm token CPU us": round(warm_s / ROUNDS * 1e6, 2),
        "new token CPU us": round(fresh_s / len(fresh) * 1e6, 1),
    }
