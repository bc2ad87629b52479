"""Signatures: valid for equal data, purpose, key and context only; one spelling of base64."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_edge.signing import Signer, from_base64url, to_base64url

KEY = b"k" * 32


def test_signature_is_valid_for_its_own_data_only():
    """Data, context, purpose and key all count."""
    signer = Signer(KEY, "cursors")
    signature = signer.sign(b"data", "list", 1)
    assert signer.verify(signature, b"data", "list", 1)
    assert not signer.verify(signature, b"date", "list", 1)
    assert not signer.verify(signature, b"data", "list", 2)
    assert not signer.verify(signature, b"data")
    assert not signer.verify(signature[:-1], b"data", "list", 1)
    assert not signer.verify(b"", b"data", "list", 1)
    assert not Signer(KEY, "ids").verify(signature, b"data", "list", 1)
    assert not Signer(b"x" * 32, "cursors").verify(signature, b"data", "list", 1)


def test_parts_of_the_context_do_not_run_together():
    """("ab", "c") is not ("a", "bc")."""
    signer = Signer(KEY, "cursors")
    assert signer.sign(b"", "ab", "c") != signer.sign(b"", "a", "bc")
    assert signer.sign(b"c", "ab") != signer.sign(b"bc", "a")


def test_ids_of_earlier_releases_stay_valid():
    """Key derivation and message are fixed: clients keep ids."""
    key = hashlib.sha256(b"searchbus/ids/" + KEY).digest()
    expected = hmac.new(key, b"name", hashlib.sha256).digest()[:15]
    assert Signer(KEY, "ids", size_bytes=15).sign(b"name") == expected


@given(st.binary(max_size=100))
def test_base64url_gives_the_bytes_back(data):
    """For every length."""
    assert from_base64url(to_base64url(data)) == data


@pytest.mark.parametrize("text", ["QR", "QQ==", "Q Q", "Q\nQ", "QQ+", "Q", "é", "Q/"])
def test_other_spellings_are_refused(text):
    """Padding, white space, other alphabets, and bits beyond the last byte."""
    with pytest.raises(ValueError):
        from_base64url(text)
