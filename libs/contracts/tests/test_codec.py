"""JSON of the wire: decoding raises one kind of exception for any bytes."""

from __future__ import annotations

from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from searchbus_contracts import Fault, canonical, decode, encode


class Message(Struct, omit_defaults=True):
    text: Annotated[str, Meta(max_length=5)] = ""
    count: Annotated[int, Meta(ge=0, le=9)] = 0
    inner: Message | None = None


def fault_of(data: bytes) -> Fault:
    with pytest.raises(Fault) as caught:
        decode(data, Message)
    return caught.value


def test_json_is_compact_and_defaults_are_omitted():
    """No white space, UTF-8, only fields that differ from their defaults."""
    assert encode(Message(text="é", count=2)) == '{"text":"é","count":2}'.encode()
    assert encode(Message()) == b"{}"


def test_unknown_fields_are_ignored():
    """A newer peer may send more."""
    assert decode(b'{"text": "a", "new": [1]}', Message) == Message(text="a")


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b'{"count": 10}', ("<= 9", "count")),
        (b'{"inner": {"text": "123456"}}', ("length <= 5", "inner.text")),
        (b'{"text": 1}', ("Expected `str`", "text")),
        (b"{", ("truncated",)),
        (b"", ("truncated",)),
        (b"[" * 100_000, ("",)),
        (b'{"text": "\xff"}', ("UTF-8",)),
    ],
)
def test_a_malformed_message_names_the_field_and_the_limit(data, parts):
    """The failure is terminal: sending it again would not help."""
    fault = fault_of(data)
    assert fault.code == "invalid_argument"
    assert not fault.failure.retryable
    for part in parts:
        assert part in fault.failure.message


def test_deep_nesting_is_a_fault():
    """RecursionError does not leave the codec."""
    assert "nested too deeply" in fault_of(b'{"inner":' * 100_000).failure.message


def test_the_input_is_not_quoted():
    """A failure goes to logs and to other services."""
    assert "secret" not in fault_of(b'{"text": "secret-canary"}').failure.message


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_fault(data):
    """No other exception."""
    try:
        decode(data, Message)
    except Fault as fault:
        assert fault.code == "invalid_argument"


def test_canonical_json_has_sorted_keys():
    """Equal values have equal bytes, for hashes."""
    assert canonical({"b": {"d": 1, "c": 2}, "a": 3}) == b'{"a":3,"b":{"c":2,"d":1}}'


@given(st.dictionaries(st.text(max_size=5), st.integers(), max_size=6), st.randoms())
def test_canonical_json_does_not_depend_on_the_order_of_keys(value, random):
    """Whatever order a dictionary was built in."""
    items = list(value.items())
    random.shuffle(items)
    assert canonical(dict(items)) == canonical(value)
