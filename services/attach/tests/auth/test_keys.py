"""Sealed texts, and statements of who a caller is."""

from __future__ import annotations

import base64
import json
import time

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from searchbus_attach.auth.keys import Sealer, ServiceIdentity, key_from_text

KEY = bytes(range(32))
PEM = ECKey.generate_key("P-256").as_pem(private=True).decode()


def test_what_is_sealed_can_be_opened_with_the_key_for_its_purpose_only():
    """And says nothing to others."""
    text = Sealer(KEY).seal("a", {"word": "secret"})
    assert "secret" not in text
    assert Sealer(KEY).open("a", text, dict) == {"word": "secret"}
    for sealer, purpose in ((Sealer(KEY), "b"), (Sealer(KEY[::-1]), "a")):
        with pytest.raises(ValueError, match="not sealed with this key"):
            sealer.open(purpose, text, dict)


def test_a_changed_text_is_refused():
    """Every part of it is protected."""
    sealer = Sealer(KEY)
    text = sealer.seal("a", {"word": "secret"})
    parts = text.split(".")
    for number in (0, 2, 3, 4):
        other = base64.urlsafe_b64encode(b"x" * 16).decode().rstrip("=")
        changed = ".".join([*parts[:number], other, *parts[number + 1 :]])
        with pytest.raises(ValueError):
            sealer.open("a", changed, dict)
    for wrong in ("", "....", "ä.b.c.d.e", "x" * 100_000):
        with pytest.raises(ValueError):
            sealer.open("a", wrong, dict)


def test_the_same_value_is_sealed_differently_each_time():
    """Equal tokens do not look equal."""
    assert Sealer(KEY).seal("a", 1) != Sealer(KEY).seal("a", 1)


def test_a_key_is_32_bytes_in_base64():
    """Of either alphabet."""
    key = bytes([255] * 32)
    assert key_from_text(base64.b64encode(key).decode() + "\n") == key
    assert key_from_text(base64.urlsafe_b64encode(key).decode()) == key
    for wrong in ("", "word", base64.b64encode(b"short").decode()):
        with pytest.raises(ValueError, match="openssl rand"):
            key_from_text(wrong)


def test_a_statement_is_signed_short_and_for_one_issuer():
    """The public keys verify it."""
    identity = ServiceIdentity(PEM, "https://bus.example")
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
        ServiceIdentity(pem, "x")
