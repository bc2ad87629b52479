"""What a service that was taken over can do on the secured bus, with its own key, by hand."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
from nats.aio.msg import Msg

from searchbus_contracts.services import (
    permissions,
    publishes,
    subscribes,
)
from searchbus_runtime.services import bus_users
from searchbus_testing import until

from .jetstream_api import requests_about
from .locked_bus import LockedBus

SERVICES = bus_users()


@pytest.fixture
def bus(locked_bus: LockedBus) -> LockedBus:
    """The one that is attacked."""
    return locked_bus


def example(pattern: str) -> str:
    """One subject that matches a pattern and that nothing else answers."""
    return pattern.replace("*", "probe").replace(">", "probe.probe")


def matches(pattern: str, subject: str) -> bool:
    """NATS's rule, written again for the test."""
    regex = re.escape(pattern).replace(r"\*", "[^.]+").replace(">", ".+")
    return re.fullmatch(regex, subject) is not None


def may_publish(name: str, subject: str) -> bool:
    """Whether a subject is in the service's list, and not denied."""
    return _permits(name, "publish", subject)


def may_subscribe(name: str, subject: str) -> bool:
    """Whether a subject is in the service's list, and not denied."""
    return _permits(name, "subscribe", subject)


def _permits(name: str, verb: str, subject: str) -> bool:
    lists = permissions(SERVICES[name], SERVICES.values())[verb]
    allowed = any(matches(pattern, subject) for pattern in lists["allow"])
    return allowed and not any(matches(pattern, subject) for pattern in lists.get("deny", ()))


def everything() -> set[str]:
    """A subject for each line of each list, and some that are in none."""
    found = {
        example(pattern)
        for service in SERVICES.values()
        for pattern in (*publishes(service, SERVICES.values()), *subscribes(service))
    }
    for name, service in SERVICES.items():
        found |= {f"_INBOX_{name}.x.{other.group}.probe" for other in SERVICES.values()}
        found |= {f"_INBOX_{name}.probe", f"_INBOX_{name}.x.$PART.probe"}
        found |= {f"$SRV.INFO.{service.group}", f"sb.v1.evt.catalog.{service.group}"}
        found |= {f"sb.v1.{name}.{verb}" for verb in (*service.endpoints, "probe")}
        for bucket in service.buckets:
            found |= {f"$KV.sb_{bucket}.probe"} | requests_about(f"KV_sb_{bucket}")
    found |= requests_about("probe")
    return found | {"sb.v1.evt.catalog.probe", "sb.v1.ctl.ping.probe.probe", "other.subject"}


async def effects(bus: LockedBus, act: Callable[[], Awaitable[None]]) -> set[str]:
    """The subjects on which messages `attack` arrived at the server while `act` ran."""
    seen: set[str] = set()

    async def note(message: Msg) -> None:
        if message.data == b"attack":
            seen.add(message.subject)
        elif message.subject == "end":
            seen.add("end")

    async with bus.witness() as witness:
        await witness.subscribe(">", cb=note)
        await witness.flush()
        await act()
        await witness.publish("end", b"")
        await until(lambda: "end" in seen)
    return seen - {"end"}


@pytest.mark.parametrize("name", sorted(SERVICES))
async def test_a_service_publishes_nothing_beyond_its_list(bus, name):
    """Every subject of every service is tried."""
    async with bus.user(name) as service:

        async def act() -> None:
            for subject in everything():
                await service.publish(subject, b"attack")
                await service.flush()

        arrived = await effects(bus, act)
    assert arrived == {subject for subject in everything() if may_publish(name, subject)}


@pytest.mark.parametrize("name", sorted(SERVICES))
async def test_a_service_receives_nothing_beyond_its_list(bus, name):
    """Neither by the subjects of the others nor by wildcards."""
    received: set[str] = set()

    async def note(message: Msg) -> None:
        received.add(message.subject)

    subjects = {s for s in everything() if not s.startswith("$JS")}
    async with bus.user(name) as service, bus.witness() as witness:
        for pattern in (">", "*.>", "sb.>", "sb.v1.*.*", "_INBOX_edge.>", "$SRV.>", *subjects):
            await service.subscribe(pattern, cb=note)
            # One refusal at a time: many at once can end nats-py's connection.
            await service.flush()
        for pattern in subscribes(SERVICES[name]):
            await service.subscribe(pattern, queue="other", cb=note)
        await service.flush()
        for subject in subjects:
            await witness.publish(subject, b"{}")
        await witness.flush()
        await witness.publish(f"_INBOX_{name}.end", b"")
        expected = {subject for subject in subjects if may_subscribe(name, subject)}
        expected.add(f"_INBOX_{name}.end")
        await until(lambda: expected <= received, message=lambda: str(sorted(expected - received)))
    assert expected == received


@pytest.mark.parametrize("name", sorted(SERVICES))
@pytest.mark.slow
async def test_a_reply_to_oneself_opens_no_subject(bus, name):
    """A service sends itself a message whose reply subject is another's, and then "replies"."""
    own = {s for s in everything() if may_publish(name, s) and may_subscribe(name, s)}
    targets = {s for s in everything() if not may_publish(name, s)}
    # The server delivers no message whose reply subject is an acknowledgement's.
    targets = {subject for subject in targets if not subject.startswith("$JS.ACK.")}
    replied = 0
    async with bus.user(name) as service:

        async def reply(message: Msg) -> None:
            nonlocal replied
            replied += 1
            await message.respond(b"attack")
            await service.flush()

        async def act() -> None:
            for subject in own:
                await service.subscribe(subject, cb=reply)
            for subject in own:
                for target in targets:
                    await service.publish(subject, b"mine", reply=target)
            await until(lambda: replied == len(own) * len(targets))
            await service.flush()

        arrived = await effects(bus, act)
    assert arrived == set()
