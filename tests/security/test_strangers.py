"""What an edge says to those who have not signed in, and to those who pretend to be near it."""

from __future__ import annotations

import pytest

from searchbus_edge.auth.static_keys import KeyFile

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


@pytest.mark.parametrize("path", ["mcpoffice", "mcp/nope", "office", "mcp/office/more"])
async def test_metadata_exists_for_endpoints_only(secured, path):
    response = await secured.http.get(f"/.well-known/oauth-protected-resource/{path}")
    assert response.status_code == 404


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
