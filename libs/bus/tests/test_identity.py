"""The signed actor: signed by the edge only, passed on by workers, refused otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import Struct, structs

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
from searchbus_bus.identity import Sent
from searchbus_contracts import Actor, Fault
from searchbus_contracts.headers import MAX_ACTOR_CHARS

PRIVATE, PUBLIC = new_actor_keys()
ALICE = Actor(subject="alice", roles=("A",))
ROOT = Actor(subject="root", roles=("*",))


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
    """The worker in between passes the caller on."""
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


SENT = Sent("sb.v1.tool.web.web_search", "1" * 32, "a" * 64)


def refused(verifier, headers, sent=SENT):
    with pytest.raises(Fault) as caught:
        verifier.verify(headers, sent)
    return caught.value.code == "forbidden"


def test_a_signature_is_valid_for_its_request_and_for_a_limited_time():
    """Every change is refused, every use for another request, and every use after the end."""
    now_s = [1000.0]
    signer = ActorSigner(PRIVATE, clock=lambda: now_s[0])
    verifier = ActorVerifier(PUBLIC, clock=lambda: now_s[0])
    headers = signer.headers(ALICE, SENT)
    assert verifier.verify(headers, SENT) is not None
    end, key, encoded = headers["Actor-Sig"].split(".")
    # The first byte: the last one of an Ed25519 signature is zero in one of sixteen.
    changed = ("B" if encoded[0] == "A" else "A") + encoded[1:]
    for bad in ("", ".", "..", end, f"{end}.{key}", f"{end}.{key}.", f"{int(end) + 1}.{key}.{encoded}",
                f"{end}.{key}.{changed}", f"{end}..{encoded}", f"x.{key}.{encoded}", f"{end}.{key}.é",
                f"{end}.{key}.{encoded}.{encoded}", f"-{end}.{key}.{encoded}"):  # fmt: skip
        assert refused(verifier, {**headers, "Actor-Sig": bad})
    assert refused(verifier, {**headers, "Actor": headers["Actor"].replace("alice", "admin")})
    for other in (
        replace(SENT, subject="sb.v1.tool.web.web_extract_content"),
        replace(SENT, subject="sb.v1.retrieval.delete"),
        replace(SENT, req_id="2" * 32),
        replace(SENT, sha256="b" * 64),
    ):
        assert refused(verifier, headers, other)
    now_s[0] += 301
    assert refused(verifier, headers)


def test_a_caller_is_passed_on_for_one_request_with_no_further_role():
    """What is passed on is worth nothing elsewhere and goes no further."""
    now_s = [1000.0]
    verifier = ActorVerifier(PUBLIC, clock=lambda: now_s[0])
    received = ActorSigner(PRIVATE, clock=lambda: now_s[0]).headers(ALICE, SENT)
    delegation = verifier.verify(received, SENT)
    other = Sent("sb.v1.ddg.search", "2" * 32, "b" * 64)
    passed = delegation.headers(Actor(subject="alice"), other)
    assert verifier.verify(passed, other) is None
    for sent in (SENT, replace(other, subject="sb.v1.ddg.fetch"), replace(other, req_id="3" * 32)):
        assert refused(verifier, passed, sent)
    assert delegation.headers(Actor(subject="alice", roles=("A", "B")), other) is None
    assert delegation.headers(Actor(subject="bob"), other) is None
    desk = structs.replace(ALICE, endpoint="desk")
    at_desk = verifier.verify(
        ActorSigner(PRIVATE, clock=lambda: now_s[0]).headers(desk, SENT), SENT
    )
    assert at_desk.headers(desk, other) is not None
    assert at_desk.headers(ALICE, other) is None
    # Signed by hand, past the check of `headers`.
    more = replace(delegation, grant=structs.replace(delegation.grant, actor=ROOT.to_header()))
    forged = more.headers(ROOT, other)
    assert refused(verifier, forged, other)
    kept = {**forged, "Actor-Grant": passed["Actor-Grant"]}
    assert refused(verifier, kept, other)
    # A key of the worker's own making, and what the receiver of `passed` has: no key at all.
    own = replace(delegation, key=new_actor_keys()[0]).headers(ALICE, other)
    assert refused(verifier, own, other)
    assert refused(verifier, {**passed, "Actor-Grant": "{}"}, other)
    now_s[0] += 301
    assert refused(verifier, passed, other)


def test_the_actor_of_a_grant_is_read_once_its_signature_is_valid(monkeypatch):
    """Who has no key makes the receiver do no more than check that."""
    received = ActorSigner(PRIVATE).headers(ALICE, SENT)
    delegation = ActorVerifier(PUBLIC).verify(received, SENT)
    other = Sent("sb.v1.ddg.search", "2" * 32, "b" * 64)
    passed = delegation.headers(ALICE, other)
    read, whole = [], Actor.from_header
    monkeypatch.setattr(Actor, "from_header", lambda text: read.append(text) or whole(text))
    assert refused(ActorVerifier(new_actor_keys()[1]), passed, other)
    assert read == []
    ActorVerifier(PUBLIC).verify(passed, other)
    assert read == [received["Actor"], passed["Actor"]]
    padded = passed["Actor-Grant"][:-1] + " " * 2 * MAX_ACTOR_CHARS + "}"
    assert refused(ActorVerifier(PUBLIC), {**passed, "Actor-Grant": padded}, other)


def test_a_rotated_key_is_used_and_accepted_as_its_files_say():
    """A signer uses its first key; a verifier accepts each of its keys."""
    other_private, other_public = new_actor_keys()
    privates, publics = [PRIVATE], [PUBLIC]
    signer = ActorSigner(lambda: tuple(privates))
    verifier = ActorVerifier(lambda: tuple(publics))
    sent = Sent.of("s", "r", b"")
    before = signer.headers(ALICE, sent)
    publics.append(other_public)
    privates.append(other_private)
    verifier.verify(signer.headers(ALICE, sent), sent)
    del privates[0]
    after = signer.headers(ALICE, sent)
    for headers in (before, after):
        verifier.verify(headers, sent)
    del publics[0]
    verifier.verify(after, sent)
    with pytest.raises(Fault, match="not signed"):
        verifier.verify(before, sent)
