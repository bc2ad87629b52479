"""msgspec's errors in words that a caller can act on."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from searchbus_contracts.codec import worded


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct):
    time: Literal["", "d", "w"] | None = ""
    color: Color = Color.RED


class Message(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
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
        msgspec.json.decode(data, type=Message)
    assert worded(caught.value, Message) == text


def test_long_names_of_a_caller_are_cut():
    """A name can be as long as a message."""
    with pytest.raises(msgspec.MsgspecError) as caught:
        msgspec.json.decode(b'{"' + b"x" * 10_000 + b'": 1}', type=Message)
    assert len(worded(caught.value, Message)) < 150
