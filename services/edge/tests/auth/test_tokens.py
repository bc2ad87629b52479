"""Tokens: signature, issuer, times, audience, subject; cached for a minute."""

from __future__ import annotations

import asyncio
import base64
import json

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from searchbus_edge.auth import tokens
from searchbus_edge.auth.identity import UnauthenticatedError
from searchbus_edge.auth.tokens import Jwks, TokenVerifier, verify_signature
from searchbus_testing import until

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
    with pytest.raises(UnauthenticatedError) as caught:
        await verifier.verify(text, [AUDIENCE])
    return caught.value.message


async def test_no_bearer_has_the_name_of_a_tenant_that_borrows(verifier):
    """They would share its limits, and its sessions with attached servers."""
    identity = await verifier.verify(token(sub="tenant:blue"), [AUDIENCE])
    assert identity.actor.subject == "sub:tenant:blue"


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
        ({"sub": "a\ud800"}, "not valid here"),
        ({"roles": ["a\ud800"]}, "not valid here"),
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


@pytest.mark.parametrize("name", [[], {}, 5, None, "none"])
async def test_a_name_of_an_algorithm_that_no_key_has_is_refused(verifier, name):
    """Strangers write the header: it may hold anything."""
    parts = token().split(".")
    head = base64.urlsafe_b64encode(json.dumps({"alg": name, "kid": "k"}).encode())
    text = ".".join([head.decode().rstrip("="), *parts[1:]])
    assert "not valid here" in await refusal(verifier, text)


async def test_changed_signature_is_refused(source):
    """Of the same length."""
    good = token()
    head, body, signature = good.split(".")
    changed = "A" if signature[0] != "A" else "B"
    with pytest.raises(UnauthenticatedError):
        await verify_signature(f"{head}.{body}.{changed}{signature[1:]}", source)
    assert await verify_signature(good, source)


async def test_verified_token_is_cached_for_a_minute(verifier, source, clock):
    """And never beyond its own end; its audience is checked each time."""
    long, short = token(exp=NOW + 300), token(exp=NOW - 20)
    for _ in range(3):
        await verifier.verify(long, [AUDIENCE])
    assert source.asked == 1
    with pytest.raises(UnauthenticatedError):
        await verifier.verify(long, ["https://other.example"])
    clock.now_s += 60
    await verifier.verify(long, [AUDIENCE])
    assert source.asked == 2
    clock.now_s = NOW
    await verifier.verify(short, [AUDIENCE])
    clock.now_s = NOW + 10
    assert "expired" in await refusal(verifier, short)


ISSUER = "https://idp.example"
EC = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
EC384 = ECKey.generate_key("P-384", {"kid": "ec384"}, private=True)


class Provider:
    """Answers from a dictionary of paths; counts requests for keys."""

    def __init__(self, *keys, issuer=ISSUER):
        self.keys = [key if isinstance(key, dict) else key.as_dict(private=False) for key in keys]
        self.issuer = issuer
        self.down = False
        self.fetched = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            return httpx.Response(503)
        if request.url.path == "/.well-known/oauth-authorization-server":
            return httpx.Response(200, json={"issuer": self.issuer, "jwks_uri": f"{ISSUER}/jwks"})
        if request.url.path == "/jwks":
            self.fetched += 1
            return httpx.Response(200, json={"keys": self.keys})
        return httpx.Response(404)

    def jwks(self, clock) -> Jwks:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return Jwks(ISSUER, client=client, clock=clock)


async def ids(jwks: Jwks, kid: str | None, algorithm: str = "ES256") -> list[str]:
    return [key.kid for key in await jwks.keys(kid, algorithm)]


async def test_keys_are_found_by_id_algorithm_and_curve(clock):
    """By the metadata of RFC 8414 where OpenID Connect's is missing."""
    jwks = Provider(EC, EC384).jwks(clock)
    assert await ids(jwks, "ec") == ["ec"]
    assert await ids(jwks, None) == ["ec"]
    assert await ids(jwks, None, "ES384") == ["ec384"]
    assert await ids(jwks, "ec384", "ES256") == []
    await jwks.close()


async def test_unknown_ids_cost_one_request_in_ten_seconds(clock):
    """Anybody can send them."""
    provider = Provider(EC)
    jwks = provider.jwks(clock)
    for number in range(100):
        assert await ids(jwks, f"unknown-{number}") == []
    assert provider.fetched == 1
    provider.keys = [EC384.as_dict(private=False)]
    clock.now_s += 10.0
    assert await ids(jwks, "ec384", "ES384") == ["ec384"]
    assert provider.fetched == 2


async def test_keys_stay_valid_for_a_day_without_the_provider(clock):
    """Then nobody is let in any more."""
    provider = Provider(EC)
    jwks = provider.jwks(clock)
    assert await ids(jwks, "ec") == ["ec"]
    provider.down = True
    clock.now_s += 23 * 3600
    assert await ids(jwks, "ec") == ["ec"]
    clock.now_s += 3601
    assert await ids(jwks, "ec") == []


async def test_hanging_provider_delays_no_caller_whose_key_is_known(clock):
    """The keys are good for a day; the fetch goes on in the background and is never started twice."""
    asked = []
    answered = asyncio.Event()

    async def provider(request: httpx.Request) -> httpx.Response:
        if asked:
            asked.append(request.url.path)
            await answered.wait()
        asked.append(request.url.path)
        return httpx.Response(200, json={"keys": [EC.as_dict(private=False)]})

    jwks = Jwks(
        ISSUER, f"{ISSUER}/jwks",
        client=httpx.AsyncClient(transport=httpx.MockTransport(provider)), clock=clock,
    )  # fmt: skip
    assert await ids(jwks, "ec") == ["ec"]
    for _ in range(3):
        clock.now_s += 601
        async with asyncio.timeout(30):  # it would wait for ever
            assert await ids(jwks, "ec") == ["ec"]
            await asyncio.sleep(0)
    assert len(asked) == 2
    await jwks.close()


async def test_all_who_wait_share_one_fetch_and_its_end_begins_the_pause(clock):
    """A provider that swallows packets: whoever waited would begin the next fetch."""
    asked = []

    async def provider(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        await asyncio.sleep(0)
        clock.now_s += 20
        raise httpx.ConnectTimeout("swallowed")

    client = httpx.AsyncClient(transport=httpx.MockTransport(provider))
    jwks = Jwks(ISSUER, f"{ISSUER}/jwks", client=client, clock=clock)
    assert await asyncio.gather(*(ids(jwks, f"new-{n}") for n in range(10))) == [[]] * 10
    assert await ids(jwks, "ec") == []
    assert len(asked) == 1
    clock.now_s += 10
    assert await ids(jwks, "ec") == []
    assert len(asked) == 2
    await jwks.close()


async def test_a_provider_that_never_answers_holds_nobody_and_is_asked_again(clock, monkeypatch):
    """A caller waits for a part of the time of a fetch, which ends as well."""
    monkeypatch.setattr(tokens, "_WAIT_S", 0.01)
    asked = []

    async def provider(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        await asyncio.Event().wait()
        raise AssertionError

    async with asyncio.timeout(30):  # it would wait for ever
        for fetch_s in (3600.0, 0.01):
            monkeypatch.setattr(tokens, "_FETCH_S", fetch_s)
            client = httpx.AsyncClient(transport=httpx.MockTransport(provider))
            jwks = Jwks(ISSUER, f"{ISSUER}/jwks", client=client, clock=clock)
            for _ in range(3):
                assert await ids(jwks, "ec") == []
                clock.now_s += 10
            if fetch_s > 1:
                assert len(asked) == 1
            while fetch_s < 1 and len(asked) < 4:
                clock.now_s += 10
                assert await ids(jwks, "ec") == []
            await jwks.close()


async def test_a_body_without_end_is_read_up_to_the_limit(clock):
    """Not as a whole before its size is looked at."""
    sent = []

    async def parts():
        while len(sent) < 100:
            sent.append(1)
            yield b"x" * 65_536

    client = httpx.AsyncClient(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, content=parts()))
    )
    jwks = Jwks(ISSUER, f"{ISSUER}/jwks", client=client, clock=clock)
    assert await ids(jwks, "ec") == []
    assert len(sent) == 9
    await jwks.close()


async def test_known_keys_are_replaced_in_the_background(clock):
    """The call that finds them old still uses them; the next one has the new ones."""
    provider = Provider(EC)
    jwks = provider.jwks(clock)
    assert await ids(jwks, "ec") == ["ec"]
    provider.keys = [EC384.as_dict(private=False)]
    clock.now_s += 601
    assert await ids(jwks, "ec") == ["ec"]
    await until(lambda: provider.fetched == 2)
    clock.now_s += 10
    assert await ids(jwks, "ec") == []
    await jwks.close()


async def test_metadata_of_another_issuer_is_not_followed(clock):
    """It could name anybody's keys."""
    assert await ids(Provider(EC, issuer=ISSUER + "/").jwks(clock), "ec") == []


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "oct", "k": OctKey.generate_key(256).as_dict(private=True)["k"], "kid": "ec"},
        {**EC.as_dict(private=False), "use": "enc"},
        {**EC.as_dict(private=False), "key_ops": ["encrypt"]},
        {**EC.as_dict(private=False), "alg": "ES512"},
        {"kty": "EC", "kid": "ec"},
        RSAKey.generate_key(1024, {"kid": "ec"}, private=True).as_dict(private=False),
        "text",
    ],
    ids=["secret", "for encryption", "other use", "other algorithm", "incomplete", "short", "text"],
)
async def test_unusable_keys_are_left_out(clock, key):
    """And harm no other."""
    provider = Provider(EC384)
    provider.keys.append(key)
    jwks = provider.jwks(clock)
    assert await ids(jwks, "ec") == []
    assert await ids(jwks, None, "RS256") == []
    assert await ids(jwks, "ec384", "ES384") == ["ec384"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"keys": 5}', b"x" * 600_000, b"{" * 1000])
async def test_bad_key_sets_are_no_keys(clock, body):
    """Not an exception."""
    client = httpx.AsyncClient(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    )
    jwks = Jwks(ISSUER, f"{ISSUER}/jwks", client=client, clock=clock)
    assert await jwks.keys("ec", "ES256") == []
