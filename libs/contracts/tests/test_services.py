"""A service's declaration: what follows from it, and which names are refused."""

from __future__ import annotations

import pytest

from searchbus_contracts import encode
from searchbus_contracts.services import (
    OPERATOR,
    Container,
    Service,
    declarations_from_json,
    may_call,
    needed_for,
    permissions,
    publishes,
    subscribes,
)
from searchbus_contracts.subjects import inbox_prefix

DDG = Service(name="ddg", toolsets=("ddg",), endpoints=("search", "fetch"), calls=("ddg.fetch",))
WEB = Service(name="web", toolsets=("web",), calls=("ddg.search",))
EDGE = Service(name="edge", queue_group="connector", toolsets=("connector",), calls=("tool.>",))
RETRIEVAL = Service(name="retrieval", resources=("documents",), endpoints=("search",))
SILENT = Service(name="silent")


def test_a_service_serves_what_it_declares():
    """Tools, resources and endpoints, without prefix and version."""
    assert DDG.serves == ("tool.ddg.*", "ddg.search", "ddg.fetch")
    assert RETRIEVAL.serves == ("resource.documents.*", "retrieval.search")
    assert SILENT.serves == ()


def test_the_queue_group_is_the_name_unless_declared():
    """The edge serves as the connector."""
    assert (DDG.group, EDGE.group) == ("ddg", "connector")


@pytest.mark.parametrize(
    ("calls", "callees"),
    [
        ((), set()),
        (("ddg.search", "ddg.fetch"), {"ddg"}),
        (("retrieval.*", "ddg.search"), {"retrieval", "ddg"}),
        (("tool.>",), {"*"}),
        (("resource.>", "toolindex.search"), {"*", "toolindex"}),
    ],
)
def test_the_subjects_say_which_services_are_called(calls, callees):
    """A tool or a resource may belong to any of them."""
    assert Service(name="x", calls=calls).callees == callees


def test_a_caller_may_call_what_its_subjects_name():
    """A service that serves nothing has no callers."""
    assert may_call(WEB, DDG)
    assert may_call(EDGE, DDG)
    assert may_call(OPERATOR, RETRIEVAL)
    assert not may_call(WEB, RETRIEVAL)
    assert not may_call(EDGE, SILENT)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "a.b"},
        {"name": ""},
        {"toolsets": ("*",)},
        {"resources": ("a b",)},
        {"endpoints": (">",)},
        {"buckets": ("a/b",)},
        {"queue_group": "a b"},
    ],
)
def test_names_are_subject_tokens(changes):
    """A declaration cannot widen its own permissions."""
    with pytest.raises(ValueError, match="subject token"):
        Service(**{"name": "x", **changes})


def test_declarations_survive_as_json():
    """For images in which the other services are not installed."""
    web = Service(name="web", toolsets=("web",), container=Container(internet=True, replicas=None))
    declared = {"ddg": DDG, "web": web}
    assert declarations_from_json(encode(declared)) == declared


@pytest.mark.parametrize("text", [b"", b"[]", b'{"web": {}}', b'{"web": {"name": 3}}'])
def test_other_json_is_refused(text):
    """A damaged file is an error, not an empty list of services."""
    with pytest.raises(ValueError):
        declarations_from_json(text)


def services(*found: Service) -> dict[str, Service]:
    return {service.name: service for service in found}


@pytest.mark.parametrize(
    ("toolset", "needed"),
    [
        ("ddg", {"ddg"}),
        ("web", {"web", "ddg"}),
        ("documents", {"retrieval"}),
        ("tips", {"tips"}),
        ("connector", {"edge", "web", "ddg", "retrieval"}),
        (None, {"edge", "web", "ddg", "retrieval", "tips", "silent"}),
        ("unknown", set()),
    ],
)
def test_a_toolset_needs_its_owner_and_whom_that_one_asks(toolset, needed):
    """An endpoint of all tools needs all."""
    tips = Service(name="tips", prompts=("tips",))
    assert needed == needed_for(toolset, services(DDG, WEB, EDGE, RETRIEVAL, SILENT, tips))


def test_every_toolset_needs_what_every_endpoint_uses():
    """One that nobody declares needs nothing."""
    index = Service(name="index", endpoints=("search",), serves_every_endpoint=True)
    found = services(DDG, WEB, index)
    assert needed_for("ddg", found) == {"ddg", "index"}
    assert needed_for("unknown", found) == set()


def test_needs_go_on_over_several_services():
    """And end where services call each other."""
    first = Service(name="first", toolsets=("a",), calls=("second.do",))
    second = Service(name="second", endpoints=("do",), calls=("third.do",))
    third = Service(name="third", endpoints=("do",), calls=("first.do", "second.do"))
    found = services(first, second, third, DDG)
    assert {"first", "second", "third"} == needed_for("a", found)


def test_a_toolset_that_nobody_declares_needs_what_attaches_toolsets():
    """And what that one needs."""
    attach = Service(name="attach", attaches_toolsets=True)
    services = {"attach": attach, "ddg": DDG, "web": WEB}
    assert needed_for("files", services) == {"attach"}
    assert needed_for("ddg", services) == {"ddg"}


FOLLOWER = Service(
    name="edge", queue_group="connector", toolsets=("connector",),
    calls=("tool.>", "retrieval.*"), follows_catalog=True, buckets=("rates",),
)  # fmt: skip
CALLED = Service(name="ddg", toolsets=("ddg",), endpoints=("search",))
CALLER = Service(name="web", toolsets=("web",), calls=("ddg.search",))
CLIENT = Service(name="client", calls=("ddg.search",))
ALL = (FOLLOWER, CALLED, CALLER, CLIENT)


def test_calls_of_one_toolset_are_needed_by_it_alone():
    """All of them are permitted on the bus."""
    pages = Service(
        name="pages", toolsets=("read", "crawl"), calls=("ddg.search",),
        calls_for=(("crawl", ("store.put",)),),
    )  # fmt: skip
    store = Service(name="store", endpoints=("put",))
    engine = Service(name="ddg", endpoints=("search",))
    found = {service.name: service for service in (pages, store, engine)}
    assert needed_for("read", found) == {"pages", "ddg"}
    assert needed_for("crawl", found) == {"pages", "ddg", "store"}
    assert "sb.v1.store.put" in publishes(pages, found.values())
    assert declarations_from_json(encode(found)) == found


def test_a_client_sends_its_calls_and_cancels_them():
    """It pings who has them, and sends nothing else but the parts of a large request."""
    assert publishes(CLIENT, ALL) == [
        "$SRV.INFO.ddg",
        "_INBOX_ddg.*.$PART.*",
        "sb.v1.at.*.ddg.search",
        "sb.v1.ctl.cancel.ddg",
        "sb.v1.ctl.ping.ddg.*",
        "sb.v1.ddg.search",
    ]
    assert subscribes(CLIENT) == ["_INBOX_client.>"]


def test_a_worker_announces_itself_and_replies_to_its_callers_only():
    """At the reply subjects that name it, and at those of discovery."""
    assert publishes(CALLED, ALL) == [
        "_INBOX_client.*.ddg.>",
        "_INBOX_ddg.*.ddg.*",
        "_INBOX_edge.*.$SRV.*",
        "_INBOX_edge.*.ddg.>",
        "_INBOX_web.*.ddg.>",
        "sb.v1.ctl.cancel.ddg",
        "sb.v1.ctl.ping.ddg.*",
        "sb.v1.evt.catalog.ddg",
    ]
    assert not any(s.startswith("_INBOX_client") for s in publishes(CALLER, ALL))


def test_a_worker_subscribes_to_its_own_subjects():
    """Its tools and endpoints, its catalogue, its cancellations, discovery."""
    assert subscribes(CALLED) == [
        "$SRV.INFO",
        "$SRV.INFO.ddg",
        "$SRV.INFO.ddg.*",
        "$SRV.PING",
        "$SRV.PING.ddg",
        "$SRV.PING.ddg.*",
        "$SRV.STATS",
        "$SRV.STATS.ddg",
        "$SRV.STATS.ddg.*",
        "_INBOX_ddg.>",
        "sb.v1.at.*.ddg.search",
        "sb.v1.at.*.tool.ddg.*",
        "sb.v1.catalog.ddg.*",
        "sb.v1.ctl.cancel.ddg",
        "sb.v1.ctl.ping.ddg.*",
        "sb.v1.ddg.search",
        "sb.v1.tool.ddg.*",
    ]


def test_a_caller_of_any_tool_may_cancel_at_any_service():
    """Which service has a tool is known at run time only."""
    found = publishes(FOLLOWER, ALL)
    assert "sb.v1.ctl.cancel.*" in found
    assert {"$SRV.INFO", "$SRV.INFO.*", "sb.v1.catalog.*.*", "sb.v1.tool.>"} <= set(found)
    assert "sb.v1.evt.catalog.*" in subscribes(FOLLOWER)


def test_a_follower_may_cancel_its_requests_for_catalogs():
    """A slow edge cost the tool index a violation."""
    follower = Service(name="toolindex", endpoints=("search",), follows_catalog=True)
    assert "sb.v1.ctl.cancel.*" in publishes(follower, (*ALL, follower))


def test_cancellations_go_to_the_queue_group():
    """The edge serves as the connector."""
    assert "sb.v1.ctl.cancel.connector" in subscribes(FOLLOWER)
    assert "sb.v1.ctl.cancel.edge" not in subscribes(FOLLOWER)


def test_nothing_of_jetstream_is_in_a_list():
    """Buckets are in accounts of their own."""
    for service in ALL:
        allowed = [*publishes(service, ALL), *subscribes(service)]
        assert not any(subject.startswith(("$KV", "$JS")) for subject in allowed)


@pytest.mark.parametrize("service", ALL, ids=lambda service: service.name)
def test_the_prefix_is_that_of_the_stack(service):
    """Another stack on the same server is out of reach."""
    for subject in [*publishes(service, ALL, "mine"), *subscribes(service, "mine")]:
        assert not subject.startswith("sb.")
        assert "sb_" not in subject


@pytest.mark.parametrize("service", ALL, ids=lambda service: service.name)
def test_lists_are_sorted_without_duplicates(service):
    """So that the server's configuration changes only with a declaration."""
    for subjects in (publishes(service, ALL), subscribes(service)):
        assert subjects == sorted(set(subjects))


def test_no_service_may_subscribe_to_the_inbox_of_another():
    """Replies are private."""
    for service in ALL:
        inboxes = [s for s in subscribes(service) if s.startswith("_INBOX")]
        assert inboxes == [f"{inbox_prefix(service.name)}.>"]


def test_what_attaches_toolsets_may_serve_those_that_nobody_declares():
    """Those of others are denied below its wildcards."""
    attach = Service(name="attach", endpoints=("status",), attaches_toolsets=True)
    found = subscribes(attach)
    assert {"sb.v1.tool.*.*", "sb.v1.at.*.tool.*.*", "sb.v1.attach.status"} <= set(found)
    assert {"sb.v1.resource.*.*", "sb.v1.prompt.*.*"} <= set(found)
    assert permissions(attach, (*ALL, attach))["subscribe"]["deny"] == sorted(
        f"sb.v1.{to}{family}.{toolset}.*"
        for to in ("", "at.*.")
        for family in ("tool", "resource", "prompt")
        for toolset in ("connector", "ddg", "web")
    )
    assert "deny" not in permissions(CALLED, (*ALL, attach))["subscribe"]


def test_what_attaches_toolsets_may_ask_another_of_its_instances():
    """For a caller's session there; never for a toolset of another service."""
    attach = Service(name="attach", endpoints=("status",), attaches_toolsets=True)
    found = publishes(attach, (*ALL, attach))
    assert {
        "_INBOX_attach.*.$PART.*", "_INBOX_attach.*.attach.>", "sb.v1.at.*.prompt.*.*",
        "sb.v1.at.*.resource.*.*", "sb.v1.at.*.tool.*.*", "sb.v1.ctl.cancel.attach",
        "sb.v1.ctl.ping.attach.*",
    } <= set(found)  # fmt: skip
    assert not any(subject.startswith(("sb.v1.tool.", "sb.v1.resource.")) for subject in found)
    assert permissions(attach, (*ALL, attach))["publish"]["deny"] == sorted(
        f"sb.v1.at.*.{family}.{toolset}.*"
        for family in ("tool", "resource", "prompt")
        for toolset in ("connector", "ddg", "web")
    )
    assert "deny" not in permissions(CALLED, (*ALL, attach))["publish"]
