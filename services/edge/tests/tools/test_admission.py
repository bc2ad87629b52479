"""Who may send a request: caller, limit, addresses; refusals name what each interface needs."""

from __future__ import annotations

import pytest

from searchbus_contracts import Actor
from searchbus_edge.auth.authenticator import Authenticator
from searchbus_edge.auth.identity import Identity, UnauthenticatedError
from searchbus_edge.http.body import BodyLimits
from searchbus_edge.http.faults import HttpRefusedError
from searchbus_edge.tools.admission import AddressRules, HttpPolicy
from searchbus_edge.tools.audit import AuditLog
from searchbus_edge.tools.limits import LocalLimiter
from searchbus_edge.tools.telemetry import Tracing


class Keys:
    def verify(self, key):
        if key == "bad":
            raise UnauthenticatedError("Unknown.")
        return Identity(Actor(subject=key), 0.0)


@pytest.fixture
def admit(clock):
    audit = AuditLog()

    def make(keys=Keys()):
        policy = HttpPolicy(
            authenticator=Authenticator(keys=keys, resource_url="https://x.example"),
            abuse=LocalLimiter(1, 2, clock=clock),
            tracing=Tracing(trust=False),
            addresses=AddressRules(["x.example"], ["https://x.example"]),
            limits=BodyLimits(1000, 1000),
            audit=audit,
        )

        async def send(key="alice", **headers):
            given = {"host": "x.example", "authorization": f"Bearer {key}"} | headers
            pairs = [(name.encode(), value.encode()) for name, value in given.items()]
            return await policy.admit({"headers": pairs, "client": ("10.0.0.1", 5)}, "/mcp/office")

        return policy, send

    yield make
    audit.close()


async def test_admitted_request_has_its_caller(admit):
    """The identity, which limits count; without access control the client's address."""
    received = await admit()[1]("alice")
    assert (received.actor.subject, received.caller) == ("alice", "alice")
    received = await admit(None)[1]()
    assert (received.actor.subject, received.caller) == ("anonymous", "10.0.0.1")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"key": "bad"}, 401),
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"authorization": ""}, 401),
    ],
)
async def test_refused_request_has_its_status(admit, headers, status):
    """A repeated credential is tested with the endpoints."""
    with pytest.raises(HttpRefusedError) as raised:
        await admit()[1](**headers)
    assert raised.value.status == status


async def test_challenge_names_the_resource(admit):
    """That of the endpoint whose tokens are accepted."""
    with pytest.raises(HttpRefusedError) as raised:
        await admit()[1]("bad")
    challenge = dict(raised.value.headers)[b"www-authenticate"]
    assert b"oauth-protected-resource/mcp/office" in challenge


async def test_too_many_requests_are_told_when_to_come_back(admit, clock):
    """429, until the time has passed."""
    _, send = admit()
    await send()
    await send()
    with pytest.raises(HttpRefusedError) as raised:
        await send()
    assert (raised.value.status, raised.value.code) == (429, -31429)
    assert int(dict(raised.value.headers)[b"retry-after"]) >= 1
    clock.now_s += 2.0
    await send()


def test_missing_role_is_a_refusal_where_callers_are_known(admit, make_tool):
    """Without access control roles are not asked for by HTTP: the tool is unknown instead."""
    paid = make_tool("paid", required_roles=("ROLE_PAYER",))
    actor = Actor(subject="alice")
    found = admit()[0].check_role(actor, "/mcp", paid)
    assert (found.status, found.message) == (403, "forbidden: The role ROLE_PAYER is needed.")
    assert b'scope="ROLE_PAYER"' in dict(found.headers)[b"www-authenticate"]
    assert admit()[0].check_role(Actor(subject="bob", roles=("PAYER",)), "/mcp", paid) is None
    assert admit()[0].check_role(actor, "/mcp", None) is None
    assert admit(None)[0].check_role(actor, "/mcp", paid) is None
