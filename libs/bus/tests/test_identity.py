"""The signed actor: made by the edge only, passed on by workers, refused when it is anything else."""

from __future__ import annotations

import pytest
from msgspec import Struct

from searchbus_bus import ActorSigner, ActorVerifier, Call, MemoryBroker, Worker, new_actor_keys
from searchbus_contracts import Actor, Fault

PRIVATE, PUBLIC = new_actor_keys()
ALICE = Actor(subject="alice", roles=("A",))


class Who(Struct):
    pass


class Answer(Struct):
    subject: str
    roles: tuple[str, ...]


@pytest.fixture
async def buses():
    """An edge, a worker that asks another on the caller's behalf, and a stranger."""
    broker = MemoryBroker()
    verifier = ActorVerifier(PUBLIC)
    inner = broker.connect(name="inner", verifier=verifier)
    outer = broker.connect(name="outer", verifier=verifier)

    async def who(call: Call, _: Who) -> Answer:
        return Answer(call.actor.subject, call.actor.roles)

    async def relay(call: Call, _: Who) -> Answer:
        return await ask(outer, call.actor, "inner")

    async def pretend(call: Call, _: Who) -> Answer:
        return await ask(outer, Actor(subject="root", roles=("*",)), "inner")

    for bus, name, verbs in (
        (inner, "inner", {"who": who}),
        (outer, "outer", {"who": relay, "lie": pretend}),
    ):
        worker = Worker(name)
        for verb, handler in verbs.items():
            worker.endpoint(verb, Who, handler)
        await bus.serve(worker)
    return {
        "edge": broker.connect(name="edge", signer=ActorSigner(PRIVATE), verifier=verifier),
        "stranger": broker.connect(name="stranger", signer=ActorSigner(new_actor_keys()[0])),
        "nobody": broker.connect(name="nobody"),
    }


async def ask(bus, actor, service="inner", verb="who"):
    return await bus.request(
        bus.subjects.endpoint(service, verb),
        Who(),
        Answer,
        service=service,
        timeout_s=2,
        actor=actor,
    )


async def test_edge_is_believed_also_through_another_worker(buses):
    """The worker in between passes on what it got."""
    for service in ("inner", "outer"):
        answer = await ask(buses["edge"], ALICE, service)
        assert (answer.subject, answer.roles) == ("alice", ("A",))


@pytest.mark.parametrize("who", ["stranger", "nobody"])
async def test_nobody_else_is(buses, who):
    """Neither another key nor none."""
    with pytest.raises(Fault) as caught:
        await ask(buses[who], ALICE)
    assert caught.value.code == "forbidden"


async def test_worker_cannot_make_a_caller_up(buses):
    """It has the public key only."""
    with pytest.raises(Fault) as caught:
        await ask(buses["edge"], ALICE, "outer", "lie")
    assert caught.value.code == "forbidden"


async def test_request_without_an_actor_has_no_roles(buses):
    """As on an open bus."""
    answer = await ask(buses["nobody"], None)
    assert (answer.subject, answer.roles) == ("anonymous", ())


def test_signature_fits_its_header_and_ends():
    """Every change and every minute beyond its time is refused."""
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
