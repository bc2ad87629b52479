"""JSON of the wire, by msgspec (proto/README.md §3).

Decoding raises `Fault(invalid_argument)` and nothing else for any bytes: msgspec itself also raises
UnicodeDecodeError and RecursionError.

msgspec 0.22 learns the fields of a Struct when one is decoded for the first time, and meanwhile
other threads see half of them: the process ends by a segmentation fault. So types are learned here,
one after the other. Threads decode and convert with this module only.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from .errors import ErrorCode, Fault
from .wording import worded

__all__ = ["canonical", "convert", "decode", "encode"]

T = TypeVar("T")
_learning = threading.Lock()
_encoder = msgspec.json.Encoder()
_canonical = msgspec.json.Encoder(order="deterministic")


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


def decode(data: bytes, kind: type[T]) -> T:
    """Decode JSON into `kind`, checking types and limits; unknown fields are ignored.

    Raises:
        Fault: invalid_argument, naming the field and what to send (see `wording`).
    """
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
