"""States who a caller is to an authorization server: a JWT that searchbus signs (RFC 7519).

The caller's own token stays at the edge. The authorization server trusts searchbus's key instead:
`searchbus attach identity` prints the public one.
"""

from __future__ import annotations

import json
import secrets
import time

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

__all__ = ["TOKEN_TYPE", "Identity"]

TOKEN_TYPE = "urn:ietf:params:oauth:token-type:jwt"  # noqa: S105  (a name of RFC 8693)
_LIFE_S = 60


class Identity:
    """Signs statements with a key of the curve P-256 (ES256).

    Args:
        pem: the private key, as `openssl ecparam -genkey -name prime256v1 -noout` prints it.
        issuer: `iss` of the statements.

    Raises:
        ValueError: it is another kind of key.
    """

    def __init__(self, pem: str, issuer: str) -> None:
        try:
            key = ECKey.import_key(pem)
        except (JoseError, ValueError, TypeError):
            key = None
        if key is None or key.curve_name != "P-256" or not key.is_private:
            raise ValueError(
                "must be a private key of the curve P-256 in PEM: "
                "openssl ecparam -genkey -name prime256v1 -noout"
            )
        self._key = key
        self._key_id = key.thumbprint()
        self._issuer = issuer

    def statement(self, caller: str, audience: str) -> str:
        """A JWT, valid for a minute, that a request is on behalf of a caller.

        Args:
            audience: the issuer that it is for.
        """
        now_s = int(time.time())
        header = {"alg": "ES256", "kid": self._key_id, "typ": "JWT"}
        claims = {
            "iss": self._issuer, "sub": caller, "aud": audience, "iat": now_s,
            "exp": now_s + _LIFE_S, "jti": secrets.token_urlsafe(16),
        }  # fmt: skip
        return jwt.encode(header, claims, self._key)

    def public_keys(self) -> str:
        """The public key as a JSON Web Key Set, for the authorization server."""
        public = self._key.as_dict(private=False, kid=self._key_id, use="sig", alg="ES256")
        return json.dumps({"keys": [public]})
