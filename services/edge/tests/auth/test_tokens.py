"""Tokens: signature, issuer, times, audience, subject; cached for a minute."""

from __future__ import annotations

import json

import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from searchbus_edge.auth.identity import Unauthenticated
from searchbus_edge.auth.tokens import TokenVerifier, verify_signature

ISSUER, AUDIENCE = "https://idp.example", "https://x.example/mcp"
KEY = ECKey.generate_key("P-256", {"kid": "k"}, private=True)
NOW = 1_000_000.5


class Source:
    """One key; counts the look-ups."""

    def __init__(self):
        self.asked = 0

    async def keys(self, kid, algorithm):
        self.asked += 1
        return [KEY] if kid in (None, "k") else []


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def verifier(source, clock) -> TokenVerifier:
    clock.now_s = NOW
    return TokenVerifier(source, ISSUER, clock=clock)


def token(header=None, payload=None, **claims) -> str:
    found = {
        "iss": ISSUER,
        "sub": "alice",
        "aud": AUDIENCE,
        "exp": NOW + 300,
        "roles": ["A"],
    } | claims
    body = payload or json.dumps({k: v for k, v in found.items() if v is not ...}).encode()
    head = {"alg": "ES256", "kid": "k"} | (header or {})
    return jws.serialize_compact(head, body, KEY, algorithms=["ES256"])


async def refusal(verifier, text) -> str:
    with pytest.raises(Unauthenticated) as caught:
        await verifier.verify(text, [AUDIENCE])
    return caught.value.message


async def test_good_token_names_its_bearer(verifier):
    """Subject and roles; a machine's token may name a client instead."""
    identity = await verifier.verify(token(), [AUDIENCE])
    assert (identity.actor.subject, identity.actor.roles) == ("alice", ("A",))
    machine = await verifier.verify(token(sub=..., client_id="robot"), [AUDIENCE])
    assert machine.actor.subject == "robot"


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"exp": NOW - 30}, "expired"),
        ({"exp": ...}, "expired"),
        ({"exp": "9999999999"}, "expired"),
        ({"exp": True}, "expired"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"iat": NOW + 31}, "not valid yet"),
        ({"nbf": None}, "not valid yet"),
        ({"iss": ISSUER + "/"}, "not valid here"),
        ({"iss": [ISSUER]}, "not valid here"),
        ({"iss": ...}, "not valid here"),
        ({"aud": ...}, "aud"),
        ({"aud": []}, "aud"),
        ({"aud": [1]}, "aud"),
        ({"aud": "https://other.example"}, "aud"),
        ({"sub": ""}, "not valid here"),
        ({"sub": 7}, "not valid here"),
        ({"sub": "x" * 257}, "not valid here"),
    ],
)
async def test_bad_claims_are_refused(verifier, claims, message):
    """The message names what is wrong and not how near it was."""
    assert message in await refusal(verifier, token(**claims))


@pytest.mark.parametrize(
    "claims",
    [{"exp": NOW - 29.9}, {"nbf": NOW + 29.9}, {"iat": NOW + 30}, {"aud": ["x", AUDIENCE]}],
)
async def test_clocks_may_differ_by_half_a_minute(verifier, claims):
    """To the fraction of a second."""
    await verifier.verify(token(**claims), [AUDIENCE])


@pytest.mark.parametrize(
    "payload", [b"[]", b"5", b"{", b"\xff", b'{"iss": "a", "iss": "b"}', b"[" * 100_000]
)
async def test_payload_must_be_one_object_without_duplicates(verifier, payload):
    """The last of two equal claims would count otherwise."""
    assert "not valid here" in await refusal(verifier, token(payload=payload))


@pytest.mark.parametrize("header", [{"kid": "other"}, {"typ": "dpop+jwt"}])
async def test_bad_headers_are_refused(verifier, header):
    """Another key, another type of token."""
    assert "not valid here" in await refusal(verifier, token(header=header))


@pytest.mark.parametrize("text", ["", "..", "a.b.c", "é", "x" * 20_000, "a.b.c.d.e"])
async def test_text_that_is_no_token_is_refused(verifier, text):
    """Without a look at the keys."""
    assert "not valid here" in await refusal(verifier, text)


async def test_changed_signature_is_refused(source):
    """Of the same length."""
    good = token()
    head, body, signature = good.split(".")
    changed = "A" if signature[0] != "A" else "B"
    with pytest.raises(Unauthenticated):
        await verify_signature(f"{head}.{body}.{changed}{signature[1:]}", source)
    assert await verify_signature(good, source)


async def test_verified_token_is_cached_for_a_minute(verifier, source, clock):
    """And never beyond its own end; its audience is checked each time."""
    long, short = token(exp=NOW + 300), token(exp=NOW - 20)
    for _ in range(3):
        await verifier.verify(long, [AUDIENCE])
    assert source.asked == 1
    with pytest.raises(Unauthenticated):
        await verifier.verify(long, ["https://other.example"])
    clock.now_s += 60
    await verifier.verify(long, [AUDIENCE])
    assert source.asked == 2
    clock.now_s = NOW
    await verifier.verify(short, [AUDIENCE])
    clock.now_s = NOW + 10
    assert "expired" in await refusal(verifier, short)
