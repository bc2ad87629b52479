"""Card, catalog and server.json: their fields, who reads them, and that nothing else is in them."""

from __future__ import annotations

import json

import httpx
import jsonschema_rs
import pytest
from mcp import Client

from searchbus_contracts import VERSION
from searchbus_edge.interfaces.server_card import ai_catalog, registry_entry, server_card
from searchbus_edge.settings import EdgeSettings
from searchbus_testing import run_command

NAME = "com.example/search"
OPEN = {"server_name": NAME}
CARD, CATALOG = "/mcp/server-card", "/.well-known/ai-catalog.json"
KEY_INPUT = {
    "type": "object",
    "properties": {
        "description": {"type": "string"},
        "isRequired": {"type": "boolean"},
        "isSecret": {"type": "boolean"},
    },
    "additionalProperties": False,
}
REMOTE = {
    "type": "object",
    "required": ["type", "url"],
    "properties": {
        "type": {"enum": ["streamable-http", "sse"]},
        "url": {"type": "string", "pattern": r"^https?://[^\s]+$"},
        "headers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "value": {"type": "string"},
                    "isRequired": {"type": "boolean"},
                    "isSecret": {"type": "boolean"},
                    "variables": {"type": "object", "additionalProperties": KEY_INPUT},
                },
                "additionalProperties": False,
            },
        },
        "supportedProtocolVersions": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": False,
}


def schema_of(address: str, remote: dict) -> dict:
    """What both formats say of the fields that we send; fields that they do not have are refused.

    Written after server-card.schema.json (v1) of the repository ext-server-card and
    schemas/2025-12-11/server.schema.json of the repository static, both of modelcontextprotocol.
    """
    return {
        "type": "object",
        "required": ["$schema", "name", "description", "version"],
        "properties": {
            "$schema": {"const": f"https://static.modelcontextprotocol.io/schemas/{address}"},
            "name": {
                "type": "string", "minLength": 3, "maxLength": 200,
                "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
            },
            "title": {"type": "string", "minLength": 1, "maxLength": 100},
            "description": {"type": "string", "minLength": 1, "maxLength": 100},
            "version": {"type": "string", "maxLength": 255, "pattern": r"^\d+\.\d+\.\d+[^*x^~<>]*$"},
            "remotes": {"type": "array", "items": remote, "minItems": 1},
        },
        "additionalProperties": False,
    }  # fmt: skip


NO_VERSIONS = {k: v for k, v in REMOTE["properties"].items() if k != "supportedProtocolVersions"}
SCHEMAS = {
    server_card: schema_of("v1/server-card.schema.json", REMOTE),
    registry_entry: schema_of(
        "2025-12-11/server.schema.json", REMOTE | {"properties": NO_VERSIONS}
    ),
}


@pytest.mark.parametrize("auth", ["static", "none"])
@pytest.mark.parametrize("make", [server_card, registry_entry])
def test_document_has_the_fields_of_its_format(make, auth, tmp_path):
    """And asks for a key exactly where the edge does."""
    settings = EdgeSettings(server_name=NAME, auth=auth, data_dir=tmp_path)
    made = make(settings, "https://search.example.com")
    jsonschema_rs.Draft202012Validator(SCHEMAS[make]).validate(made)
    (remote,) = made["remotes"]
    assert remote["url"] == "https://search.example.com/mcp"
    assert ("headers" in remote) == (auth == "static")


def test_catalog_names_the_publisher_by_its_domain():
    """As the identifiers of the AI Catalog do."""
    (entry,) = ai_catalog(EdgeSettings(**OPEN), "https://x.example")["entries"]
    assert entry["identifier"] == "urn:air:example.com:search"


@pytest.fixture
async def http(running):
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as http:
        yield http


@pytest.mark.parametrize("running", [OPEN], indirect=True)
async def test_card_is_found_by_the_catalog_and_says_what_the_server_says(running, http):
    """A page of another site may read both; a client that has one is not sent it again."""
    catalog = await http.get(CATALOG)
    (entry,) = catalog.json()["entries"]
    assert (catalog.json()["specVersion"], catalog.headers["content-type"]) == (
        "1.0", "application/ai-catalog+json",
    )  # fmt: skip
    path = httpx.URL(entry["url"]).path
    card = await http.get(path, headers={"Origin": "https://elsewhere.example"})
    assert card.status_code == 200
    assert card.headers["content-type"] == entry["type"] == "application/mcp-server-card+json"
    assert card.headers["access-control-allow-origin"] == "*"
    assert card.headers["cache-control"] == "public, max-age=3600"
    again = await http.get(path, headers={"If-None-Match": card.headers["etag"]})
    assert again.status_code == 304
    assert (await http.head(path)).content == b""
    (remote,) = card.json()["remotes"]
    for mode in ("auto", "legacy"):
        async with Client(f"{running.url}{httpx.URL(remote['url']).path}", mode=mode) as client:
            assert client.protocol_version in remote["supportedProtocolVersions"]
            assert (client.server_info.version, client.server_info.title) == (
                card.json()["version"], card.json()["title"],
            )  # fmt: skip


@pytest.mark.parametrize("running", [OPEN], indirect=True)
async def test_toolset_of_that_name_is_still_an_endpoint(http):
    """Only GET and HEAD are for the card."""
    posted = await http.post(CARD, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert (posted.status_code, "server-card" in posted.text) == (404, True)


async def test_edge_without_a_name_says_nothing(http):
    """Both addresses are like others that do not exist."""
    assert (await http.get(CATALOG)).status_code == 404
    card, absent = await http.get(CARD), await http.get("/mcp/absent")
    assert (card.status_code, card.text) == (
        absent.status_code, absent.text.replace("absent", "server-card"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server_name", "search"),
        ("server_name", "a/b/c"),
        ("server_name", "com.example/" + "x" * 200),
        ("server_description", ""),
        ("server_description", "x" * 101),
    ],
)
def test_setting_that_no_registry_takes_is_refused(name, value):
    """When the edge starts."""
    with pytest.raises(ValueError, match=name):
        EdgeSettings(**{name: value})


def test_command_prints_what_a_registry_takes(tmp_path, monkeypatch):
    """Or says which setting it needs."""
    missing = run_command("server-json", "--data", tmp_path)
    assert (missing.returncode, "set SEARCHBUS_SERVER_NAME" in missing.stderr) == (1, True)
    monkeypatch.setenv("SEARCHBUS_SERVER_NAME", NAME)
    monkeypatch.setenv("SEARCHBUS_PUBLIC_URL", "https://search.example.com")
    printed = json.loads(run_command("server-json", "--data", tmp_path).stdout)
    jsonschema_rs.Draft202012Validator(SCHEMAS[registry_entry]).validate(printed)
    assert (printed["name"], printed["version"]) == (NAME, VERSION)
