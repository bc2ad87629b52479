"""Which tokens are accepted and which are refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

import pytest
from joserfc.jwk import ECKey, RSAKey, import_key

from searchbus_edge.auth.identity import UnauthenticatedError, roles_of
from searchbus_edge.auth.tokens import ALGORITHMS, PublicKey, verify_signature

from .conftest import KEYS, RESOURCE

NAMES = {"open_tool", "role_tool", "two_tool"}


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_good_token_gets_in_and_the_worker_knows_who(secured, algorithm):
    """Roles from the claims, the prefix taken off."""
    token = secured.provider.token("ROLE_MCP-WEB-SEARCH", "other", algorithm=algorithm)
    answer = await secured.result("tools/call", token, name="role_tool", arguments={})
    assert answer["result"]["content"][0]["text"] == "role_tool for alice with MCP-WEB-SEARCH other"


@pytest.mark.parametrize(
    ("roles", "seen"),
    [
        ((), {"open_tool"}), (("MCP-WEB-SEARCH",), {"open_tool", "role_tool"}),
        (("ROLE_MCP-WEB-SEARCH",), {"open_tool", "role_tool"}), (("A",), {"open_tool"}),
        (("A", "B"), {"open_tool", "two_tool"}), (("mcp-web-search", "ROLE_ROLE_A", "*"), {"open_tool"}),
    ],
)  # fmt: skip
async def test_matrix_of_tools_and_roles(secured, roles, seen):
    """List and call by one rule: 403 with the role that is missing, compared exactly."""
    token = secured.provider.token(*roles)
    listed = await secured.result("tools/list", token)
    assert {t["name"] for t in listed["result"]["tools"]} == seen
    for name in NAMES:
        response = await secured.post("tools/call", token, name=name, arguments={})
        assert response.status_code == (200 if name in seen else 403)
        if name not in seen:
            body = response.json()
            assert (body["error"]["code"], body["id"]) == (-31403, 7)
            challenge = response.headers["www-authenticate"]
            assert 'error="insufficient_scope"' in challenge
            assert f"{RESOURCE}/.well-known/oauth-protected-resource/mcp" in challenge


async def test_missing_token_is_answered_with_the_provider(secured):
    """401 with the metadata's address, a JSON-RPC body, and metadata that names the provider."""
    response = await secured.post("tools/list")
    assert response.status_code == 401
    assert response.json()["error"]["code"] == -31401
    challenge = response.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert "error=" not in challenge  # RFC 6750: no code where there was no credential
    for path in ("", "/mcp", "/mcp/office"):
        found = (await secured.http.get(f"/.well-known/oauth-protected-resource{path}")).json()
        assert found["resource"] == RESOURCE + path
        assert found["authorization_servers"] == [secured.provider.url]
    for path in ("/mcp/none/more", "/documents", "/.."):
        missing = await secured.http.get(f"/.well-known/oauth-protected-resource{path}")
        assert missing.status_code == 404
    assert (await secured.http.get("/documents/a/b")).status_code == 401
    assert (await secured.http.get("/healthz")).status_code == 200


def bad_tokens(provider):
    """Forged, expired, for somebody else, by somebody else."""
    now = int(time.time())
    stranger = RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
    curve = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
    good = provider.token()
    head, body, signature = good.split(".")

    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    none = f"{part({'alg': 'none'})}.{body}."
    public = KEYS["RS256"].as_pem(private=False)
    unsigned_part = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{body}"
    tag = hmac.new(public, unsigned_part.encode(), hashlib.sha256).digest()
    confused = f"{unsigned_part}.{base64.urlsafe_b64encode(tag).decode().rstrip('=')}"
    return {
        "of a stranger's key": provider.token(key=stranger),
        "of a stranger's key with our id": provider.token(algorithm="ES256", key=curve),
        "unsigned": none, "unsigned in odd case": none.replace(part({"alg": "none"}), part({"alg": "nOnE"})),
        "signed with the public key as a secret": confused,
        "with another body": f"{head}.{part({'sub': 'root'})}.{signature}",
        "without its signature": f"{head}.{body}.", "cut": good[:-4], "with a tail": good + "AA",
        "expired": provider.token(exp=now - 60), "without exp": provider.token(exp=None),
        "exp as text": provider.token(exp=str(now + 60)), "exp true": provider.token(exp=True),
        "not valid yet": provider.token(nbf=now + 120), "of the future": provider.token(iat=now + 120),
        "of another issuer": provider.token(iss="https://evil.example"),
        "of an issuer with a slash": provider.token(iss=provider.url + "/"),
        "without issuer": provider.token(iss=None), "for another audience": provider.token(aud="https://other.example"),
        "for an endpoint with a slash": provider.token(aud=f"{RESOURCE}/mcp/"),
        "without audience": provider.token(aud=None), "audience of numbers": provider.token(aud=[1]),
        "without subject": provider.token(sub=None), "subject of numbers": provider.token(sub=7),
        "of another type": provider.token(header={"typ": "dpop+jwt"}),
        "an unknown key id": provider.token(header={"kid": "nobody"}),
        "with its own key": provider.token(key=stranger, header={"jwk": stranger.as_dict(private=False)}),
        "with a critical header": head.replace(head, part({"alg": "RS256", "kid": "rsa", "crit": ["b64"], "b64": False})) + f".{body}.{signature}",
        "no token at all": "nonsense", "dots": "..", "many dots": "a.b.c.d.e",
        "very long": "a" * 20_000, "with a space": f"{good} {good}",
    }  # fmt: skip


async def test_every_bad_token_is_refused_alike(secured):
    """401, never a hint how near it was, never a trace of the token."""
    for what, token in bad_tokens(secured.provider).items():
        response = await secured.post("tools/list", token)
        assert response.status_code == 401, what
        assert response.json()["error"]["code"] == -31401
        assert "www-authenticate" in response.headers
        assert "Traceback" not in response.text
    assert (await secured.post("tools/list", secured.provider.token())).status_code == 200


@pytest.mark.parametrize(
    "header",
    ["Basic YTpi", "bearer", "Bearer", "Token x", "Bearer a b", "Bearer\tx"],
)
async def test_other_schemes_are_refused(secured, header):
    """Bearer, in any case, and nothing else."""
    response = await secured.http.post("/mcp", json={}, headers={"Authorization": header})
    assert response.status_code == 401


async def test_audience_is_each_endpoints_own(secured):
    """A token for one endpoint is refused by another; one for the edge is accepted by all."""
    own = secured.provider.token(aud=[f"{RESOURCE}/mcp/office", "x"])
    assert (await secured.post("tools/list", own, "/mcp/office")).status_code == 200
    assert (await secured.post("tools/list", own, "/mcp")).status_code == 401
    root = secured.provider.token(aud=RESOURCE)
    assert (await secured.post("tools/list", root, "/mcp/office")).status_code == 200
    assert (await secured.post("tools/list", root, "/mcp")).status_code == 200


async def test_rotated_keys_are_found_and_made_up_ones_are_not_asked_for(secured):
    """A new key id is looked for once; a thousand made-up ids cost no thousand requests."""
    await secured.result("tools/list", secured.provider.token())
    before = secured.provider.fetched
    for number in range(30):
        token = secured.provider.token(header={"kid": f"made-up-{number}"})
        assert (await secured.post("tools/list", token)).status_code == 401
    assert secured.provider.fetched - before <= 1
    new = ECKey.generate_key("P-256", {"kid": "new"}, private=True)
    secured.provider.keys = [new]
    secured.jwks_clock.added_s += 11
    token = secured.provider.token(algorithm="ES256", key=new)
    assert (await secured.post("tools/list", token)).status_code == 200


async def test_callers_are_accepted_while_the_provider_is_away(secured):
    """Known keys stay good for a while; unknown ones are refused."""
    await secured.result("tools/list", secured.provider.token())
    secured.provider.down = True
    secured.jwks_clock.added_s += 3600
    assert (await secured.post("tools/list", secured.provider.token(sub="bob"))).status_code == 200
    secured.jwks_clock.added_s += 48 * 3600
    assert (await secured.post("tools/list", secured.provider.token(sub="eve"))).status_code == 401


class OneKey:
    """A source that has one key of a test vector."""

    def __init__(self, raw):
        self._raw = raw

    async def keys(self, kid, algorithm) -> list[PublicKey]:
        if ALGORITHMS[algorithm] != self._raw["kty"] or self._raw.get("alg") not in (
            None,
            algorithm,
        ):
            return []
        private = ("d", "p", "q", "dp", "dq", "qi")
        return [import_key({k: v for k, v in self._raw.items() if k not in private})]


async def test_wycheproof_signatures(reference):
    """Every invalid vector is refused; every valid one of an allowed algorithm with the key's own is not."""
    folder = reference / "corpora" / "wycheproof-jose"
    groups = json.loads((folder / "json_web_signature_test.json").read_text())["testGroups"]
    invalid = accepted = valid = 0
    for group in groups:
        raw = group.get("public") or group["private"]
        for case in group["tests"]:
            try:
                await verify_signature(case["jws"], OneKey(raw))
            except UnauthenticatedError:
                good = False
            else:
                good = True
            if case["result"] == "invalid":
                invalid += 1
                assert not good, (case["tcId"], case["comment"])
            elif raw["kty"] != "oct":
                valid += 1
                accepted += good
    assert invalid > 300
    assert accepted >= valid * 0.5


@pytest.mark.parametrize(
    ("claims", "roles"),
    [
        ({"realm_access": {"roles": ["ROLE_A", "b"]}}, ("A", "b")),
        ({"resource_access": {"searchbus": {"roles": ["x"]}, "other": {"roles": ["y"]}}}, ()),
        ({"roles": ["Reader"]}, ("Reader",)), ({"permissions": ["search:web"]}, ("search:web",)),
        ({"cognito:groups": ["g"]}, ("g",)), ({"authorities": "ROLE_A ROLE_B"}, ("A", "B")),
        ({"roles": ["*", "ROLE_*", "", 5, None, ["x"]]}, ()), ({"roles": {"a": 1}}, ()),
        ({"roles": "one"}, ("one",)), ({}, ()), ({"realm_access": "x"}, ()),
    ],
)  # fmt: skip
def test_roles_of_every_provider(claims, roles):
    """A token cannot give the role `*`."""
    assert roles_of(claims) == roles


def test_role_path_with_dots_in_a_name():
    """Auth0 requires such names for custom claims."""
    claims = {"https://example.org/roles": ["r"]}
    assert roles_of(claims, ['"https://example.org/roles"']) == ("r",)
