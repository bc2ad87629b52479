"""Replies of search APIs with a status of success: their rows, and what is no reply at all.

Whether a provider found nothing or failed depends on the shape of its reply: only a list without
rows says that nothing matches. A row that cannot be read costs no other row.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from opentelemetry import metrics

from searchbus_contracts import ErrorCode, Fault

__all__ = ["ListReply", "read_reply", "read_rows"]

log = logging.getLogger("searchbus.web")
_lost = metrics.get_meter("searchbus.web").create_counter(
    "searchbus.web.rows_lost", description="Rows of providers that could not be read."
)


class _HasUrl(Protocol):
    url: str


T = TypeVar("T")
R = TypeVar("R", bound=_HasUrl)


class ListReply(msgspec.Struct):
    """A reply with rows at its top level.

    Raises:
        msgspec.ValidationError: it has no list of rows, or an error in place of rows.
    """

    results: list[Any]
    error: Any = None
    detail: Any = None

    def __post_init__(self) -> None:
        if not self.results and (self.error or self.detail):
            raise ValueError("an error in place of rows")


def read_reply(body: bytes, reply_type: type[T]) -> T:
    """Decode a body; NaN and broken characters, which some servers write, cost no row.

    Raises:
        ValueError, RecursionError: it is not JSON, or not a reply of this type.
    """
    try:
        return msgspec.json.decode(body, type=reply_type)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        lenient = json.loads(body, parse_constant=lambda _: None)
        text = json.dumps(lenient, ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.decode(text, type=reply_type)


def read_rows(provider: str, rows: Sequence[Any], row_type: type[R]) -> list[R]:
    """The rows that can be read and have an http or https address; the others are counted.

    Raises:
        Fault: upstream_failed; there are rows, and none can be read.
    """
    found: list[R] = []
    for raw in rows:
        try:
            row = msgspec.convert(raw, row_type)
        except msgspec.ValidationError:
            continue
        if row.url.lower().startswith(("http://", "https://")):
            found.append(row)
    if lost := len(rows) - len(found):
        _lost.add(lost, {"provider": provider})
        log.warning("%s: %d of %d rows cannot be read", provider, lost, len(rows))
    if rows and not found:
        raise Fault(
            ErrorCode.UPSTREAM_FAILED,
            f"{provider} sent rows that cannot be read. Use another search tool.",
            retryable=False,
        )
    return found
