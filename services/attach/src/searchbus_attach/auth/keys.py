"""What searchbus does with its two keys: texts that only it can read, statements of callers."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from joserfc import jwe, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OctKey

from searchbus_runtime import Secret

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

    The newest key seals; while keys are rotated, each of them opens.

    Args:
        key: 32 bytes, or a secret whose values are such keys as text.
    """

    def __init__(self, key: bytes | Secret) -> None:
        self._secret = key

    @property
    def newest(self) -> str:
        """The name of the key that seals; it says nothing about the key."""
        return _named(self._keys()[0])[0]

    def seal(self, purpose: str, value: Any) -> str:
        """A text that says nothing to others, of what msgspec encodes; it is opened for the same
        purpose."""
        return self._sealed(purpose, msgspec.json.encode(value))

    def seal_anew(self, purpose: str, text: str) -> str:
        """The same content, sealed with the newest key; `text` itself where no key opens it."""
        plain = self._opened(purpose, text)
        return text if plain is None else self._sealed(purpose, plain)

    def open(self, purpose: str, text: str, kind: type[T]) -> T:
        """The value; raises ValueError: it was not sealed with one of the keys for this purpose."""
        plain = self._opened(purpose, text) if len(text) <= _MAX_CHARS else None
        if plain is None:
            raise ValueError("it was not sealed with this key")
        try:
            return msgspec.json.decode(plain, type=kind)
        except msgspec.MsgspecError:
            raise ValueError("it was sealed by another version") from None

    def _keys(self) -> list[bytes]:
        """The newest one first."""
        if isinstance(self._secret, bytes):
            return [self._secret]
        values = self._secret.values()
        rest = [value for value in self._secret.accepted() if value != values[-1]]
        return [key_from_text(value) for value in (values[-1], *rest)]

    def _sealed(self, purpose: str, plain: bytes) -> str:
        name, key = _named(self._keys()[0])
        header = {"alg": "dir", "enc": "A256GCM", "typ": purpose, "kid": name}
        return jwe.encrypt_compact(header, plain, key, algorithms=_ALGORITHMS)

    def _opened(self, purpose: str, text: str) -> bytes | None:
        tried: set[bytes] = set()
        while new := [key for key in self._keys() if key not in tried]:
            for key in new:
                tried.add(key)
                try:
                    found = jwe.decrypt_compact(text, _named(key)[1], algorithms=_ALGORITHMS)
                except (JoseError, ValueError, TypeError, KeyError):
                    continue
                return found.plaintext if found.headers().get("typ") == purpose else None
            if isinstance(self._secret, Secret):
                self._secret.latest()  # another process may have sealed it with a key of just now
        return None


@lru_cache(maxsize=8)
def _named(key: bytes) -> tuple[str, OctKey]:
    return hashlib.sha256(b"searchbus/vault/" + key).hexdigest()[:8], OctKey.import_key(key)


def sealed_by(text: str) -> str:
    """The name of the key that sealed a text; empty where the text does not say it."""
    with suppress(ValueError, AttributeError):
        head = text.partition(".")[0]
        return str(json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))).get("kid"))
    return ""


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
        """A JWT (RFC 7519), valid for a minute, that a request to `audience` is on behalf of a
        caller."""
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
