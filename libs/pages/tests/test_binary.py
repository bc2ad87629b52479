"""What is a text."""

from __future__ import annotations

import random
import zlib

import pytest

from searchbus_pages import decode_text
from searchbus_pages.binary import looks_binary

PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" * 40
BINARY = {
    "program": PROGRAM,
    "picture": b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(range(256)) * 40),
    "noise": random.Random(1).randbytes(4000),
    "utf-32": "Whales sing.".encode("utf-32"),
}


@pytest.mark.parametrize("body", BINARY.values(), ids=BINARY)
def test_bytes_that_are_no_text_look_binary(body):
    """Whatever charset they were taken for."""
    assert looks_binary(decode_text(body))


@pytest.mark.parametrize(
    "text",
    ["", "Whales\r\n\tsing.\f\x1a", "\x1b[31mred\x1b[0m", "鯨の歌。", "Wal " * 100 + "\ufffd\0"],
    ids=ascii,
)
def test_text_does_not(text):
    """Not with colours of a terminal, nor with a few characters that are lost."""
    assert not looks_binary(text)
