"""What an edge says to those who have not signed in, and to those who pretend to be near it."""

from __future__ import annotations

import pytest

from searchbus_edge.auth.static_keys import KeyFile

from .conftest import RESOURCE

BOTH = [{}, {"auth": "static", "issuer": None}]
PLAIN = ["/openapi.json", "/docs", "/docs/swagger-ui.css", "/api/v1/tools", "/api"]
"""Addresses of plain HTTP."""


@pytest.mark.parametrize("secured", BOTH, indirect=True)
@pytest.mark.parametrize("path", ["/", *PLAIN, "/metrics", "/documents/a/b"])
async def test_pages_say_nothing_to_strangers(secured, path):
    """Neither the toolsets nor the metrics; without a credential each is 401 or 404."""
    response = await secured.http.get(path)
    assert response.status_code in (401, 404)
    assert "office" not in response.text
    assert "searchbus_" not in response.text


NAMED = {"server_name": "com.example/search", "joined_endpoints": {"desk": ["office"]}}


@pytest.mark.parametrize("secured", [NAMED, NAMED | BOTH[1]], indirect=True)
@pytest.mark.parametrize("path", ["/mcp/server-card", "/.well-known/ai-catalog.json"])
async def test_description_for_everybody_has_no_toolset_in_it(secured, path):
    """Nor a tool, an endpoint but /mcp or a key; a page that rebinds its name does not get it."""
    found = await secured.http.get(path, headers={"Origin": "https://evil.example"})
    assert found.status_code == 200
    for secret in ("office", "desk", "connector", "lazy", "_tool", "sbk_", "127.0.0.1"):
        assert secret not in found.text
    evil = await secured.http.get(path, headers={"Host": "evil.example"})
    assert evil.status_code == 421
    assert (await secured.http.post(path)).status_code in (401, 405)


@pytest.mark.parametrize("secured", BOTH, indirect=True)
async def test_strangers_call_no_tool_by_plain_http(secured):
    """401 with the address of the metadata, whether there is such a tool or not."""
    for path in ("tools/open_tool", "tools/absent", "office/open_tool"):
        response = await secured.http.post(f"/api/v1/{path}", json={})
        assert (response.status_code, response.json()["code"]) == (401, "unauthenticated")
        assert "oauth-protected-resource/mcp" in response.headers["www-authenticate"]


async def test_signed_in_caller_sees_the_endpoints_and_no_metrics(secured):
    """Metrics are on the health port only."""
    headers = {"Authorization": f"Bearer {secured.provider.token()}"}
    assert "/mcp/office" in (await secured.http.get("/", headers=headers)).json()["endpoints"]
    assert (await secured.http.get("/metrics", headers=headers)).status_code == 404
    assert (await secured.http.get("/healthz")).status_code == 200


@pytest.mark.parametrize("path", ["/", "/openapi.json", "/api/v1/tools", "/documents/a/b"])
async def test_two_authorization_headers_are_refused_on_every_page(secured, path):
    """A proxy may have checked the other one."""
    token = secured.provider.token()
    headers = [("Authorization", f"Bearer {token}"), ("Authorization", "Bearer x")]
    assert (await secured.http.get(path, headers=headers)).status_code == 400


@pytest.mark.parametrize("path", ["/", "/documents/a/b"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:80@evil.example", "127.0.0.1:x"])
async def test_pages_check_the_host(secured, path, host):
    """Before the credential."""
    assert (await secured.http.get(path, headers={"Host": host})).status_code == 421


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "127.0.0.1:80@evil.example", 421),
        ("Host", "localhost:80.evil.example", 421),
        ("Origin", "http://localhost:80.evil.example", 403),
        ("Origin", "http://localhost:80@evil.example", 403),
        ("Origin", "http://localhost:", 403),
    ],
)
async def test_allowed_name_with_more_behind_it_is_another_address(secured, header, value, status):
    """Any port is allowed, but only a port."""
    headers = {
        "Authorization": f"Bearer {secured.provider.token()}",
        "Accept": "application/json, text/event-stream",
        header: value,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert (await secured.http.post("/mcp", json=body, headers=headers)).status_code == status


@pytest.mark.parametrize(
    "path", ["/mcp/", "/mcp/office/", "/healthz/", "/documents/", "/docs/", "/api/v1/tools/"]
)
async def test_no_path_redirects_to_the_clients_host(secured, path):
    """A redirect would name the Host that the client sent."""
    for method in ("GET", "POST"):
        response = await secured.http.request(method, path, headers={"Host": "evil.example"})
        assert response.status_code >= 400
        assert "location" not in response.headers


@pytest.mark.parametrize("path", ["mcpoffice", "mcp/no pe", "office", "mcp/office/more"])
async def test_metadata_exists_for_endpoints_only(secured, path):
    """And not for an address that no endpoint could have."""
    response = await secured.http.get(f"/.well-known/oauth-protected-resource/{path}")
    assert response.status_code == 404


@pytest.mark.parametrize("secured", BOTH, indirect=True)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("prefix", ["/mcp/", "/.well-known/oauth-protected-resource/mcp/"])
async def test_strangers_cannot_tell_known_toolsets_from_others(secured, method, prefix):
    """The same status, headers and body, but for the name; who has signed in gets a 404."""

    async def answer(name: str) -> tuple[int, list[tuple[str, str]], str]:
        found = await secured.http.request(method, prefix + name)
        headers = [(k, v.replace(name, "NAME")) for k, v in found.headers.items() if k != "date"]
        return found.status_code, headers, found.text.replace(name, "NAME")

    assert await answer("office") == await answer("absent")
    if secured.edge.settings.mode == "jwt":
        found = await secured.post("ping", secured.provider.token(aud=RESOURCE), path="/mcp/absent")
        assert found.status_code == 404


async def test_name_of_a_toolset_cannot_write_headers(secured):
    """It would be in the challenge."""
    for name in ("a%0d%0ax-evil:%201", "a%22", "a b", "é"):
        found = await secured.http.post(f"/mcp/{name}")
        assert found.status_code == 404
        assert "www-authenticate" not in found.headers


@pytest.mark.parametrize(
    "secured", [{"auth": "none", "issuer": None, "public_url": ""}], indirect=True
)
@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/healthz"])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("10.1.2.3:80@evil.example", 421),
        ("localhost:1", 200),
        ("10.1.2.3:8080", 200),
        ("10.1.2.3", 200),
        ("[fd00::1]:8080", 200),
    ],
)
async def test_state_of_an_open_edge_is_for_its_own_addresses(secured, path, host, status):
    """Probes name it by IP address; a page that rebinds a name of its own cannot."""
    assert (await secured.http.get(path, headers={"Host": host})).status_code == status


@pytest.mark.parametrize("path", ["/api/v1/tools", "/api/v1/tools?query=x", "/openapi.json"])
@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("none", 200)]
)
async def test_pages_of_other_sites_list_no_tools(secured, path, site, status):
    """A picture with such an address is a GET without Origin."""
    headers = {"Authorization": f"Bearer {secured.provider.token()}", "Sec-Fetch-Site": site}
    found = await secured.http.get(path, headers=headers)
    # There is no index to search in.
    assert found.status_code == (503 if status == 200 and "query" in path else status)


async def test_missing_role_in_a_batch_is_the_same_denial(secured):
    """Not an unknown tool, which a client would report as a fault of the server."""
    headers = {
        "Authorization": f"Bearer {secured.provider.token()}", "Accept": "application/json",
        "MCP-Protocol-Version": "2025-03-26",
    }  # fmt: skip
    call = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "role_tool", "arguments": {}},
    }
    alone = (await secured.http.post("/mcp", json=call, headers=headers)).json()["error"]
    ping = {"jsonrpc": "2.0", "id": 8, "method": "ping"}
    batch = {
        m["id"]: m
        for m in (await secured.http.post("/mcp", json=[call, ping], headers=headers)).json()
    }
    assert (alone["code"], batch[7]["error"]) == (-31403, alone)
    assert "result" in batch[8]


@pytest.mark.parametrize("secured", [{"auth": "static", "issuer": None}], indirect=True)
async def test_challenge_leads_to_metadata_with_static_keys_too(secured, tmp_path):
    """Without an authorization server, since there is none."""
    KeyFile(tmp_path / "keys.json").add("laptop", ())
    refused = await secured.post("ping")
    named = refused.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
    path = named.removeprefix("https://search.example.org")
    found = await secured.http.get(path)
    assert found.status_code == 200
    assert found.json()["resource"] == "https://search.example.org/mcp"
    assert "authorization_servers" not in found.json()


async def test_missing_role_is_forbidden_by_plain_http(secured):
    """403 with the role; the document of the caller does not have the tool."""
    for path in ("tools/role_tool", "office/role_tool"):
        for roles, status in (((), 403), (("MCP-WEB-SEARCH",), 200)):
            headers = {"Authorization": f"Bearer {secured.provider.token(*roles)}"}
            response = await secured.http.post(f"/api/v1/{path}", json={}, headers=headers)
            assert response.status_code == status
            document = (await secured.http.get("/openapi.json", headers=headers)).text
            assert ("role_tool" in document) == (status == 200)
            if status == 403:
                assert response.json()["code"] == "forbidden"
                assert 'scope="ROLE_MCP-WEB-SEARCH"' in response.headers["www-authenticate"]


async def test_host_is_checked_by_plain_http(secured):
    """As everywhere."""
    headers = {"Authorization": f"Bearer {secured.provider.token()}", "Host": "evil.example"}
    for path in PLAIN:
        assert (await secured.http.get(path, headers=headers)).status_code == 421


async def test_role_with_two_prefixes_is_another_role(secured):
    """`ROLE_ROLE_X` is not `X`: one prefix was removed from the token and one at the check."""
    token = secured.provider.token("ROLE_ROLE_MCP-WEB-SEARCH")
    response = await secured.post("tools/call", token, name="role_tool", arguments={})
    assert response.status_code == 403


async def test_roles_for_another_client_do_not_count(secured):
    """Only where ROLE_PATHS names the client."""
    claims = {"resource_access": {"other": {"roles": ["MCP-WEB-SEARCH"]}}}
    token = secured.provider.token(**claims)
    response = await secured.post("tools/call", token, name="role_tool", arguments={})
    assert response.status_code == 403
