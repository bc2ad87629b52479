"""The key set of a provider: cached, fetched again for new ids, kept while it is unreachable."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from searchbus_edge.auth.jwks import Jwks
from searchbus_testing import until

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
