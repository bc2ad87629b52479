"""What searchbus does with its two keys: texts that only it can read, statements of callers."""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import time
from typing import Any, TypeVar

import msgspec
from joserfc import jwe, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OctKey

T = TypeVar("T")
_KEY_BYTES = 32
_ALGORITHMS = ["dir", "A256GCM"]
_MAX_CHARS = 64 * 1024
_STATEMENT_S = 60


def key_from_text(text: str) -> bytes:
    """The key of 32 bytes in base64, as `openssl rand -base64 32` prints it.

    Raises:
        ValueError: it is something else.
    """
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise ValueError("must be 32 bytes in base64: openssl rand -base64 32")
    return key


class Sealer:
    """Seals what is in files and what passes through browsers: JWE with AES-256-GCM (RFC 7516).

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = OctKey.import_key(key)

    def seal(self, purpose: str, value: Any) -> str:
        """A text that says nothing to others.

        Args:
            purpose: must be the same when it is opened.
            value: what msgspec encodes.
        """
        header = {"alg": "dir", "enc": "A256GCM", "typ": purpose}
        return jwe.encrypt_compact(
            header, msgspec.json.encode(value), self._key, algorithms=_ALGORITHMS
        )

    def open(self, purpose: str, text: str, kind: type[T]) -> T:
        """The value.

        Raises:
            ValueError: it was not sealed with this key for this purpose.
        """
        found = None
        if len(text) <= _MAX_CHARS:
            try:
                found = jwe.decrypt_compact(text, self._key, algorithms=_ALGORITHMS)
            except (JoseError, ValueError, TypeError, KeyError):
                found = None
        if found is None or found.plaintext is None or found.headers().get("typ") != purpose:
            raise ValueError("it was not sealed with this key")
        try:
            return msgspec.json.decode(found.plaintext, type=kind)
        except msgspec.MsgspecError:
            raise ValueError("it was sealed by another version") from None


class ServiceIdentity:
    """States who a caller is to an authorization server, which trusts this key (ES256, P-256).

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
        """A JWT (RFC 7519), valid for a minute, that a request is on behalf of a caller.

        Args:
            audience: the issuer that it is for.
        """
        now_s = int(time.time())
        header = {"alg": "ES256", "kid": self._key_id, "typ": "JWT"}
        claims = {
            "iss": self._issuer, "sub": caller, "aud": audience, "iat": now_s,
            "exp": now_s + _STATEMENT_S, "jti": secrets.token_urlsafe(16),
        }  # fmt: skip
        return jwt.encode(header, claims, self._key)

    def public_keys(self) -> str:
        """The public key as a JSON Web Key Set, for the authorization server."""
        public = self._key.as_dict(private=False, kid=self._key_id, use="sig", alg="ES256")
        return json.dumps({"keys": [public]})
