"""Ids of results: they hold all that is needed to fetch them, on any edge, after any restart.

`doc:<collection>:<percent-encoded document id>` names a document; who may read it is checked when
it is read. `web:<base64url of the URL>.<seal>` names a page that search has returned: the seal
(HMAC) keeps fetch from being a proxy for any address.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from urllib.parse import quote, unquote

from searchbus_contracts import ErrorCode, Fault, is_token

__all__ = ["Ids"]

_SEAL_BYTES = 15
_MAX_CHARS = 8192


class Ids:
    """Makes and reads ids.

    Args:
        key: shared by all edges of a deployment.
    """

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(b"searchbus/ids/" + key).digest()

    def of_document(self, collection: str, document_id: str) -> str:
        """The id of a document."""
        return f"doc:{collection}:{quote(document_id, safe='')}"

    def of_page(self, url: str) -> str:
        """The id of a web page."""
        name = base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
        return f"web:{name}.{self._seal(name)}"

    def document(self, text: str) -> tuple[str, str] | None:
        """(collection, document id), None for another kind; raises Fault(not_found)."""
        if not text.startswith("doc:"):
            return None
        collection, sign, encoded = text.removeprefix("doc:").partition(":")
        if not sign or not is_token(collection) or not encoded:
            raise unknown_id()
        return collection, unquote(encoded)

    def page(self, text: str) -> str | None:
        """The URL of a page's id, None for another kind; raises Fault(not_found)."""
        if not text.startswith("web:"):
            return None
        name, _, seal = text.removeprefix("web:").partition(".")
        if len(text) > _MAX_CHARS or not text.isascii():
            raise unknown_id()
        if not hmac.compare_digest(seal, self._seal(name)):
            raise unknown_id()
        try:
            return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except (ValueError, binascii.Error):
            raise unknown_id() from None

    def _seal(self, name: str) -> str:
        tag = hmac.new(self._key, name.encode(), hashlib.sha256).digest()[:_SEAL_BYTES]
        return base64.urlsafe_b64encode(tag).decode()


def unknown_id() -> Fault:
    """What is no id of ours, or of nothing that is there."""
    return Fault(ErrorCode.NOT_FOUND, "There is no such id. Take the id from a search result.")
