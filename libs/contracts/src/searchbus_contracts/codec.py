"""JSON of the wire, by msgspec (proto/README.md §3).

Decoding raises `Fault(invalid_argument)` and nothing else for any bytes: msgspec itself also raises
UnicodeDecodeError and RecursionError.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from .errors import ErrorCode, Fault

__all__ = ["canonical", "decode", "encode"]

T = TypeVar("T")
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
    return msgspec.json.Decoder(kind)


def decode(data: bytes, kind: type[T]) -> T:
    """Decode JSON into `kind`, checking types and limits; unknown fields are ignored.

    Raises:
        Fault: invalid_argument, naming the field and the allowed range.
    """
    try:
        decoded: T = _decoder(kind).decode(data)  # type: ignore[arg-type]  # classes are hashable
        return decoded
    except msgspec.MsgspecError as error:
        # msgspec's own texts name the path and the limit and quote no input.
        raise Fault(ErrorCode.INVALID_ARGUMENT, f"{error}.") from None
    except RecursionError:
        raise Fault(ErrorCode.INVALID_ARGUMENT, "The JSON is nested too deeply.") from None
    except ValueError:
        raise Fault(ErrorCode.INVALID_ARGUMENT, "The message is not valid UTF-8.") from None
