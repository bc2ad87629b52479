"""Statements of who a caller is."""

from __future__ import annotations

import json
import time

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from searchbus_attach.auth.identity import Identity

PEM = ECKey.generate_key("P-256").as_pem(private=True).decode()


def test_a_statement_is_signed_short_and_for_one_issuer():
    """The public keys verify it."""
    identity = Identity(PEM, "https://bus.example")
    keys = json.loads(identity.public_keys())
    assert "d" not in keys["keys"][0]
    found = jwt.decode(identity.statement("ann", "https://x"), KeySet.import_key_set(keys))
    assert found.header["kid"] == keys["keys"][0]["kid"]
    claims = found.claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == (
        "https://bus.example",
        "ann",
        "https://x",
    )
    assert claims["exp"] - claims["iat"] == 60
    assert abs(claims["iat"] - time.time()) < 30
    again = jwt.decode(identity.statement("ann", "https://x"), KeySet.import_key_set(keys))
    assert again.claims["jti"] != claims["jti"]


@pytest.mark.parametrize(
    "pem",
    [
        "word",
        ECKey.generate_key("P-384").as_pem(private=True).decode(),
        ECKey.generate_key("P-256").as_pem(private=False).decode(),
        RSAKey.generate_key(2048).as_pem(private=True).decode(),
    ],
)
def test_other_keys_are_refused(pem):
    """With how to make one."""
    with pytest.raises(ValueError, match="openssl ecparam"):
        Identity(pem, "x")
