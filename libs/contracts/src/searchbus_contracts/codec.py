"""JSON of the wire, by msgspec (proto/README.md §3).

Decoding raises `Fault(invalid_argument)` and nothing else for any bytes: msgspec itself also raises
UnicodeDecodeError and RecursionError.

msgspec 0.22 learns the fields of a Struct when one is decoded for the first time, and meanwhile
other threads see half of them: the process ends by a segmentation fault. So types are learned here,
one after the other. Threads decode and convert with this module only.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from .errors import ErrorCode, Fault
from .wording import worded

__all__ = ["canonical", "convert", "decode", "encode", "long_integer"]

T = TypeVar("T")
_learning = threading.Lock()
_encoder = msgspec.json.Encoder()
_canonical = msgspec.json.Encoder(order="deterministic")
_MAX_DIGITS = 20
"""As many as 64 bits need. The time to decode an integer grows with the square of its digits."""
_AS_DIGITS = bytes(ord("1" if chr(byte).isdigit() else " ") for byte in range(128)) + b" " * 128
_TOO_LONG = b"1" * (_MAX_DIGITS + 1)
# Possessive: each byte is looked at once. A number with a fraction or an exponent is no integer.
_UP_TO_LONG = re.compile(
    rb'(?:[^"0-9]++|"(?:[^"\\]++|\\.)*+"|[0-9]++(?:\.[0-9]++(?:[eE][+-]?+[0-9]++)?+|[eE][+-]?+[0-9]++)'
    rb"|[0-9]{1,%d}+(?![0-9]))*+" % _MAX_DIGITS,
    re.DOTALL,
)
_FIELD = re.compile(rb'"([A-Za-z0-9_.-]{1,80})"\s*:\s*-?\Z')


def encode(message: Any) -> bytes:
    """Encode a message as compact JSON."""
    return _encoder.encode(message)


def canonical(message: Any) -> bytes:
    """Encode with sorted keys, so that equal values have equal bytes (for hashes)."""
    return _canonical.encode(message)


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    with _learning:
        return msgspec.json.Decoder(kind)


def long_integer(data: bytes) -> str | None:
    """Why JSON is refused that has an integer of more than 20 digits; None where it has none.

    It takes about a millisecond a megabyte, and up to 60 where 21 digits stand in a row. Call it
    before JSON from outside is decoded.
    """
    if _TOO_LONG not in data.translate(_AS_DIGITS):
        return None
    end = _UP_TO_LONG.match(data).end()  # type: ignore[union-attr]  # it also matches nothing
    if not data[end : end + 1].isdigit():
        return None  # in a string, in a fraction, or not JSON
    field = _FIELD.search(data, max(0, end - 128), end)
    where = f"The integer in {field[1].decode()}" if field else "An integer"
    return f"{where} has more than {_MAX_DIGITS} digits. Send a smaller one, or a string."


def decode(data: bytes, kind: type[T]) -> T:
    """Decode JSON into `kind`, checking types and limits; unknown fields are ignored.

    Raises:
        Fault: invalid_argument, naming the field and what to send (see `wording`).
    """
    if refused := long_integer(data):
        raise Fault(ErrorCode.INVALID_ARGUMENT, refused)
    try:
        decoded: T = _decoder(kind).decode(data)  # type: ignore[arg-type]  # classes are hashable
        return decoded
    except msgspec.MsgspecError as error:
        raise Fault(ErrorCode.INVALID_ARGUMENT, worded(error, kind)) from None
    except RecursionError:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT, "The JSON is nested too deeply. Send flatter JSON."
        ) from None
    except ValueError:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT, "The message is not valid UTF-8. Send UTF-8."
        ) from None


def convert(value: Any, kind: type[T]) -> T:
    """JSON values as `kind`; raises msgspec.ValidationError where they do not fit."""
    _decoder(kind)  # type: ignore[arg-type]  # knows the type from now on
    return msgspec.convert(value, kind)
