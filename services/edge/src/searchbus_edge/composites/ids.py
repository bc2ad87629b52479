"""Ids of search results. An id holds all that fetch needs, on any edge, after any restart.

`doc:<collection>:<percent-encoded document id>` names a document; access is checked when it is
read.
`web:<base64url of the URL>.<signature>` names a page that search has returned; without the
signature (HMAC-SHA256, cut), fetch would be a proxy for any address.
"""

from __future__ import annotations

import hmac
from urllib.parse import quote, unquote

from searchbus_contracts import ErrorCode, Fault, is_token

from ..auth.signing import derived_key, from_base64url, to_base64url

__all__ = ["Ids", "unknown_id"]

_SIGNATURE_BYTES = 15
_MAX_CHARS = 8192


class Ids:
    """Issues and reads ids.

    Args:
        key: shared by all edges of a deployment.
    """

    def __init__(self, key: bytes) -> None:
        self._key = derived_key(key, "ids")

    def of_document(self, collection: str, document_id: str) -> str:
        """The id of a document."""
        return f"doc:{collection}:{quote(document_id, safe='')}"

    def of_page(self, url: str) -> str:
        """The id of a web page."""
        name = to_base64url(url.encode())
        return f"web:{name}.{self._signature(name)}"

    def document(self, text: str) -> tuple[str, str] | None:
        """(collection, document id); None for another kind of id; raises Fault(not_found)."""
        if not text.startswith("doc:"):
            return None
        collection, colon, encoded = text.removeprefix("doc:").partition(":")
        if not colon or not is_token(collection) or not encoded:
            raise unknown_id()
        return collection, unquote(encoded)

    def page(self, text: str) -> str | None:
        """The URL of a page; None for another kind of id; raises Fault(not_found)."""
        if not text.startswith("web:"):
            return None
        name, _, signature = text.removeprefix("web:").partition(".")
        if len(text) > _MAX_CHARS or not text.isascii():
            raise unknown_id()
        # The texts are compared, not the bytes: an id has exactly one spelling.
        if not hmac.compare_digest(signature, self._signature(name)):
            raise unknown_id()
        try:
            return from_base64url(name).decode()
        except ValueError:
            raise unknown_id() from None

    def _signature(self, name: str) -> str:
        return to_base64url(hmac.digest(self._key, name.encode(), "sha256")[:_SIGNATURE_BYTES])


def unknown_id() -> Fault:
    """Raised for an id that this edge did not issue, or whose document no longer exists."""
    return Fault(ErrorCode.NOT_FOUND, "There is no such id. Take the id from a search result.")
