"""Signatures: a key for each purpose, one spelling of base64."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_edge.signing import derived_key, from_base64url, to_base64url

KEY = b"k" * 32


def test_each_purpose_and_deployment_has_a_key_of_its_own():
    """A signature for one is worthless for another."""
    keys = {derived_key(key, purpose) for key in (KEY, b"x" * 32) for purpose in ("a", "b")}
    assert len(keys) == 4


@given(st.binary(max_size=100))
def test_base64url_gives_the_bytes_back(data):
    """For every length; the standard library spells them alike, with padding."""
    assert to_base64url(data) == base64.urlsafe_b64encode(data).decode().rstrip("=")
    assert from_base64url(to_base64url(data)) == data


@pytest.mark.parametrize("text", ["QR", "QQ==", "Q Q", "Q\nQ", "QQ+", "Q", "é", "Q/"])
def test_other_spellings_are_refused(text):
    """Padding, white space, other alphabets, and bits beyond the last byte."""
    with pytest.raises(ValueError):
        from_base64url(text)
