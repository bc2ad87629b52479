"""How an edge describes itself to clients that have not connected (docs/extensions.md).

The formats leave tools to the lists, where each caller sees its own. So strangers who read these
learn no toolset and no endpoint but `/mcp`.
"""

from __future__ import annotations

from typing import Any

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from searchbus_contracts import VERSION, encode

from ..http.answer import Tagged
from ..http.head import Headers
from ..settings import EdgeSettings

CARD_PATH = "/mcp/server-card"
CATALOG_PATH = "/.well-known/ai-catalog.json"
CARD_TYPE = "application/mcp-server-card+json"
CATALOG_TYPE = "application/ai-catalog+json"
CACHE = b"public, max-age=3600"
ANYONE: Headers = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"Content-Type"),
)
"""Pages of other sites may read the documents: they are for everybody, and nothing else is."""
_TITLE = "searchbus"
_SCHEMAS = "https://static.modelcontextprotocol.io/schemas"


def server_card(settings: EdgeSettings, base_url: str) -> dict[str, Any]:
    """The card of the endpoint `/mcp`, which clients reach at `base_url`."""
    versions = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]
    endpoint = {**_remote(settings, base_url), "supportedProtocolVersions": versions}
    schema = f"{_SCHEMAS}/v1/server-card.schema.json"
    return {"$schema": schema, **_identity(settings), "remotes": [endpoint]}


def registry_entry(settings: EdgeSettings, base_url: str) -> dict[str, Any]:
    """The entry for a registry of MCP servers, by its schema of 2025-12-11: a remote server at
    `base_url`, without a package."""
    schema = f"{_SCHEMAS}/2025-12-11/server.schema.json"
    return {"$schema": schema, **_identity(settings), "remotes": [_remote(settings, base_url)]}


def ai_catalog(settings: EdgeSettings, base_url: str) -> dict[str, Any]:
    """The catalog of this host."""
    namespace, _, name = (settings.server_name or "").partition("/")
    publisher = ".".join(reversed(namespace.split(".")))
    entry = {
        "identifier": f"urn:air:{publisher}:{name}", "displayName": _TITLE,
        "type": CARD_TYPE, "url": f"{base_url}{CARD_PATH}",
    }  # fmt: skip
    return {"specVersion": "1.0", "entries": [entry]}


def documents(settings: EdgeSettings, base_url: str) -> dict[str, tuple[Tagged, bytes]]:
    """Body and media type of what is served, by path; nothing where SERVER_NAME is not set."""
    if settings.server_name is None:
        return {}
    card, catalog = server_card(settings, base_url), ai_catalog(settings, base_url)
    return {
        CARD_PATH: (Tagged.of(encode(card)), CARD_TYPE.encode()),
        CATALOG_PATH: (Tagged.of(encode(catalog)), CATALOG_TYPE.encode()),
    }


def _identity(settings: EdgeSettings) -> dict[str, Any]:
    """What the server is: the fields that the card and the registry have in common."""
    return {
        "name": settings.server_name, "title": _TITLE,
        "description": settings.server_description, "version": VERSION,
    }  # fmt: skip


def _remote(settings: EdgeSettings, base_url: str) -> dict[str, Any]:
    """How to connect to `/mcp`, with the header that static keys need."""
    found: dict[str, Any] = {"type": "streamable-http", "url": f"{base_url}/mcp"}
    if settings.mode == "static":  # a provider of tokens is named by the challenge of a 401
        key = {"description": "A key of this server.", "isRequired": True, "isSecret": True}
        header = {
            "name": "Authorization", "value": "Bearer {key}", "isRequired": True, "isSecret": True,
            "variables": {"key": key},
        }  # fmt: skip
        found["headers"] = [header]
    return found
