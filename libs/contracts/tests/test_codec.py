"""JSON of the wire: decoding raises one kind of exception for any bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from searchbus_contracts import Fault, canonical, convert, decode, encode
from searchbus_contracts.codec import long_integer, worded


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
        (b'{"count": 10}', ("at most 9", "count")),
        (b'{"inner": {"text": "123456"}}', ("at most 5 characters", "inner.text")),
        (b'{"text": 1}', ("text is an integer. Give a string",)),
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


@pytest.mark.parametrize(
    "data",
    [
        rb'{"x":"\ud800"}', rb'{"x":"\uD800x"}', rb'{"\udbff":1}', rb'{"x":"\ud800\n"}', rb'{"x":"\\\ud800"}',
        rb'{"x":"\udc00"}', rb'{"x":"\ud800\ud800"}', rb'{"x":"\ud800 and more text"}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Any, Message])
def test_half_of_a_surrogate_pair_is_named(data, kind):
    """JavaScript writes it for a text that was cut; sent again, the same JSON is refused again."""
    with pytest.raises(Fault, match=r"half of a surrogate pair, such as .* Leave it out\."):
        decode(data, kind)


@pytest.mark.parametrize(
    "data", [rb'{"x":"\ud83d', b'{"x":"\\ud83d\\', rb'{"x":"\ud83d\ude0', rb'{"x":"\\ud83dx"', b'{"x":"ab']
)  # fmt: skip
def test_text_that_ends_within_a_pair_is_truncated(data):
    """The rest may have the other half."""
    with pytest.raises(Fault, match="truncated"):
        decode(data, Any)


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ('{"a": {"f": -1e400}}', "The number in f"), ('{"1e999": [1e3, 1e400]}', "A number"),
        ('{"t": "1e999", "g": 1%s.5}' % ("0" * 400), "The number in g"),
    ],
)  # fmt: skip
def test_number_beyond_a_float_is_named(data, where):
    """The library's path has no names."""
    message = f"{where} is beyond 1e308. Send a smaller one, or a string."
    with pytest.raises(Fault) as caught:
        decode(data.encode(), Any)
    assert caught.value.failure.message == message


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


def test_values_are_converted():
    """With msgspec's error where they do not fit."""
    assert convert({"text": "a", "inner": {"count": 1}}, Message) == Message("a", 0, Message("", 1))
    with pytest.raises(msgspec.ValidationError, match="count"):
        convert({"count": 10}, Message)


_THREADS = """
import sys, threading
from msgspec import defstruct
from searchbus_contracts import convert, decode, encode

sys.setswitchinterval(1e-6)
FIELDS = [(f"f{place}", int, 0) for place in range(12)]
for number in range(100):
    parts = [defstruct(f"Part{number}_{place}", FIELDS) for place in range(6)]
    outer = defstruct(
        f"Outer{number}", [(f"g{place}", tuple[part, ...], ()) for place, part in enumerate(parts)]
    )
    value = {f"g{place}": [{f"f{n}": n for n in range(12)}] * 2 for place in range(6)}
    barrier, found = threading.Barrier(4), []

    def read(place):
        barrier.wait()
        found.append(convert(value, outer) if place % 2 else decode(encode(value), outer))

    threads = [threading.Thread(target=read, args=[place]) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(each == found[0] for each in found), number
"""


def test_types_that_threads_read_for_the_first_time_do_not_end_the_process():
    """msgspec shows a type to other threads before it knows all of its fields."""
    done = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[-2000:]


# A fraction may have more digits than any integer.
NUMBERS = st.one_of(
    st.integers(), st.integers(10**19, 10**23), st.integers(-(10**23), -(10**19)),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
DIGITS = st.text('0123456789\\"é.e-', max_size=60)
VALUES = st.recursive(
    NUMBERS | DIGITS | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(DIGITS, inner, max_size=4),
    max_leaves=20,
)


def has_long_integer(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(has_long_integer, value.values()))
    if isinstance(value, list):
        return any(map(has_long_integer, value))
    return type(value) is int and abs(value) >= 10**20


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_integers_of_more_than_twenty_digits_are_found(value, indent, ascii_only):
    """And nothing else: no text, key, fraction or exponent of as many digits."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert (long_integer(text.encode()) is not None) == has_long_integer(value)


@given(st.binary() | st.text('"\\0123456789-.eE[]{},: ').map(str.encode))
def test_any_bytes_are_looked_at_once(data):
    """What is no JSON is left to the decoder."""
    refused = long_integer(data * 3)
    assert refused is None or "20 digits" in refused


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b'{"count": %s}', "The integer in count"), (b'{"a":[1,-%s]}', "An integer"),
        (b'{"a":{"b":1},"c":-%s}', "The integer in c"), (b'{"%s":%%s}' % (b"k" * 90), "An integer"),
    ],
)  # fmt: skip
def test_a_long_integer_is_refused_before_it_is_read(data, where):
    """With its field, where that stands beside it."""
    fault = fault_of(data % (b"7" * 21))
    assert fault.code == "invalid_argument"
    assert fault.failure.message.startswith(f"{where} has more than 20 digits.")
    assert "777" not in fault.failure.message


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct):
    time: Literal["", "d", "w"] | None = ""
    color: Color = Color.RED


class Limited(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    number_of: Annotated[int, Meta(ge=1, le=5)]
    text: Annotated[str, Meta(min_length=1, max_length=3)] = "x"
    form: Annotated[str, Meta(pattern="^a$")] = "a"
    texts: Annotated[list[str], Meta(max_length=2)] = []
    inner: dict[str, list[Inner]] = {}
    either: int | list[str] = 1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("{}", "numberOf is missing. Give it."),
        ('{"numberOf": 0}', "numberOf is out of its limits. Give an integer of at least 1."),
        ('{"numberOf": 6}', "numberOf is out of its limits. Give an integer of at most 5."),
        ('{"numberOf": "1"}', "numberOf is a string. Give an integer."),
        ('{"numberOf": 1.5}', "numberOf is a number. Give an integer."),
        ('{"numberOf": 1, "q": 1}', "q is unknown. Leave it out."),
        ('{"numberOf": 1, "text": ""}',
         "text is out of its limits. Give a string of at least 1 characters."),
        ('{"numberOf": 1, "form": "b"}',
         "form is out of its limits. Give a string of the form ^a$."),
        ('{"numberOf": 1, "texts": ["", "", ""]}',
         "texts is out of its limits. Give a list of at most 2 items."),
        ('{"numberOf": 1, "texts": [null]}', "texts[0] is null. Give a string."),
        ('{"numberOf": 1, "either": "x"}', "either is a string. Give an integer or a list."),
        ('{"numberOf": 1, "inner": {"k": [{"time": "secret"}]}}',
         'inner[...][0].time has a value that is not allowed. Give one of: "", d, w.'),
        ('{"numberOf": 1, "inner": {"k": [{"color": "secret"}]}}',
         "inner[...][0].color has a value that is not allowed. Give one of: red, blue."),
        ("[]", "The value is a list. Give an object."),
        ("{", "The JSON is truncated. Send the whole of it."),
        ('{"numberOf": 1,}', "The JSON is malformed: trailing comma in object (byte 15). Send valid JSON."),
        ('{"numberOf": 1e999}', "numberOf: number out of range. Give another value."),
    ],
)  # fmt: skip
def test_error_names_the_field_and_what_to_send(data, text):
    """In two sentences, without the value and without the words of the library."""
    with pytest.raises(msgspec.MsgspecError) as caught:
        msgspec.json.decode(data, type=Limited)
    assert worded(caught.value, Limited) == text


def test_long_names_of_a_caller_are_cut():
    """A name can be as long as a message."""
    with pytest.raises(msgspec.MsgspecError) as caught:
        msgspec.json.decode(b'{"' + b"x" * 10_000 + b'": 1}', type=Limited)
    assert len(worded(caught.value, Limited)) < 150
