"""Sealed texts."""

from __future__ import annotations

import base64

import pytest

from searchbus_attach.auth.sealing import Sealer, key_from_text

KEY = bytes(range(32))


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
