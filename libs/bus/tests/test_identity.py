"""The signed actor: signed by the edge only, passed on by workers, refused otherwise."""

from __future__ import annotations

import pytest
from msgspec import Struct

from searchbus_bus import (
    ActorSigner,
    ActorVerifier,
    Bus,
    Call,
    MemoryBroker,
    Worker,
    endpoint,
    new_actor_keys,
)
from searchbus_contracts import Actor, Fault

PRIVATE, PUBLIC = new_actor_keys()
ALICE = Actor(subject="alice", roles=("A",))


class Who(Struct):
    pass


class WhoReply(Struct):
    subject: str
    roles: tuple[str, ...]


class Inner:
    @endpoint
    async def who(self, call: Call, request: Who) -> WhoReply:
        return WhoReply(call.actor.subject, call.actor.roles)


class Outer:
    """Sends requests to the inner worker: for its caller, and for an actor that it makes up."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    @endpoint
    async def who(self, call: Call, request: Who) -> WhoReply:
        return await request_who(self._bus, call.actor, "inner")

    @endpoint
    async def lie(self, call: Call, request: Who) -> WhoReply:
        return await request_who(self._bus, Actor(subject="root", roles=("*",)), "inner")


@pytest.fixture
async def buses():
    """An edge, a worker that sends requests to another for its caller, and a stranger."""
    broker = MemoryBroker()
    verifier = ActorVerifier(PUBLIC)
    inner = broker.connect(name="inner", verifier=verifier)
    outer = broker.connect(name="outer", verifier=verifier)

    worker = Worker("inner")
    worker.add(Inner())
    await inner.serve(worker)
    worker = Worker("outer")
    worker.add(Outer(outer))
    await outer.serve(worker)
    return {
        "edge": broker.connect(name="edge", signer=ActorSigner(PRIVATE), verifier=verifier),
        "stranger": broker.connect(name="stranger", signer=ActorSigner(new_actor_keys()[0])),
        "nobody": broker.connect(name="nobody"),
    }


async def request_who(bus, actor, service="inner", verb="who"):
    return await bus.request(
        bus.subjects.endpoint(service, verb),
        Who(),
        WhoReply,
        service=service,
        timeout_s=60,
        actor=actor,
    )


async def test_the_edges_actor_is_accepted_also_through_another_worker(buses):
    """The worker in between passes on the signature that it received."""
    for service in ("inner", "outer"):
        reply = await request_who(buses["edge"], ALICE, service)
        assert (reply.subject, reply.roles) == ("alice", ("A",))


@pytest.mark.parametrize("who", ["stranger", "nobody"])
async def test_an_actor_of_anyone_else_is_refused(buses, who):
    """With another key, and without a signature."""
    with pytest.raises(Fault) as caught:
        await request_who(buses[who], ALICE)
    assert caught.value.code == "forbidden"


async def test_a_worker_cannot_sign_an_actor(buses):
    """It has the public key only."""
    with pytest.raises(Fault) as caught:
        await request_who(buses["edge"], ALICE, "outer", "lie")
    assert caught.value.code == "forbidden"


async def test_request_without_an_actor_has_no_roles(buses):
    """As on an open bus."""
    reply = await request_who(buses["nobody"], None)
    assert (reply.subject, reply.roles) == ("anonymous", ())


def test_a_signature_is_valid_for_its_header_and_for_a_limited_time():
    """Every change is refused, and every use after the expiry."""
    now_s = [1000.0]
    signer = ActorSigner(PRIVATE, clock=lambda: now_s[0])
    verifier = ActorVerifier(PUBLIC, clock=lambda: now_s[0])
    header = ALICE.to_header()
    good = signer.sign(header)
    verifier.verify(header, good)
    end, encoded = good.split(".")
    # The first byte: the last one of an Ed25519 signature is zero in one of sixteen.
    changed = ("B" if encoded[0] == "A" else "A") + encoded[1:]
    for bad in ("", ".", end, f"{end}.", f"{int(end) + 1}.{encoded}", f"{end}.{changed}",
                f"x.{encoded}", f"{end}.é", f"{end}.{encoded}.{encoded}", f"-{end}.{encoded}"):  # fmt: skip
        with pytest.raises(Fault):
            verifier.verify(header, bad)
    with pytest.raises(Fault):
        verifier.verify(header.replace("alice", "admin"), good)
    now_s[0] += 301
    with pytest.raises(Fault):
        verifier.verify(header, good)
    assert signer.sign(header) != good
