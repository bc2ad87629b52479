"""What each service may do on the bus follows from the declarations."""

from __future__ import annotations

import pytest

from searchbus_contracts.services import (
    Service,
    publishes,
    publishes_not,
    subscribes,
    subscribes_not,
)
from searchbus_contracts.subjects import inbox_prefix

EDGE = Service(
    name="edge", queue_group="connector", toolsets=("connector",),
    calls=("tool.>", "retrieval.*"), follows_catalog=True, buckets=("rates",),
)  # fmt: skip
DDG = Service(name="ddg", toolsets=("ddg",), endpoints=("search",))
WEB = Service(name="web", toolsets=("web",), calls=("ddg.search",))
CLIENT = Service(name="client", calls=("ddg.search",))
ALL = (EDGE, DDG, WEB, CLIENT)


def test_a_client_sends_its_calls_and_cancels_them():
    """It pings who has them, and sends nothing else but the parts of a large request."""
    assert publishes(CLIENT, ALL) == [
        "_INBOX_ddg.*.$PART.*",
        "sb.v1.at.*.ddg.search",
        "sb.v1.ctl.cancel.ddg",
        "sb.v1.ctl.ping.ddg.*",
        "sb.v1.ddg.search",
    ]
    assert subscribes(CLIENT) == ["_INBOX_client.>"]


def test_a_worker_announces_itself_and_replies_to_its_callers_only():
    """At the reply subjects that name it, and at those of discovery."""
    assert publishes(DDG, ALL) == [
        "_INBOX_client.*.ddg.>",
        "_INBOX_ddg.*.ddg.*",
        "_INBOX_edge.*.$SRV.*",
        "_INBOX_edge.*.ddg.>",
        "_INBOX_web.*.ddg.>",
        "sb.v1.ctl.cancel.ddg",
        "sb.v1.ctl.ping.ddg.*",
        "sb.v1.evt.catalog.ddg",
    ]
    assert not any(s.startswith("_INBOX_client") for s in publishes(WEB, ALL))


def test_a_worker_subscribes_to_its_own_subjects():
    """Its tools and endpoints, its catalogue, its cancellations, discovery."""
    assert subscribes(DDG) == [
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
    found = publishes(EDGE, ALL)
    assert "sb.v1.ctl.cancel.*" in found
    assert {"$SRV.INFO", "$SRV.INFO.*", "sb.v1.catalog.*.*", "sb.v1.tool.>"} <= set(found)
    assert "sb.v1.evt.catalog.*" in subscribes(EDGE)


def test_a_follower_may_cancel_its_requests_for_catalogs():
    """A slow edge cost the tool index a violation."""
    follower = Service(name="toolindex", endpoints=("search",), follows_catalog=True)
    assert "sb.v1.ctl.cancel.*" in publishes(follower, (*ALL, follower))


def test_cancellations_go_to_the_queue_group():
    """The edge serves as the connector."""
    assert "sb.v1.ctl.cancel.connector" in subscribes(EDGE)
    assert "sb.v1.ctl.cancel.edge" not in subscribes(EDGE)


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
    assert subscribes_not(attach, (*ALL, attach)) == sorted(
        f"sb.v1.{to}{family}.{toolset}.*"
        for to in ("", "at.*.")
        for family in ("tool", "resource", "prompt")
        for toolset in ("connector", "ddg", "web")
    )
    assert subscribes_not(DDG, (*ALL, attach)) == []


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
    assert publishes_not(attach, (*ALL, attach)) == sorted(
        f"sb.v1.at.*.{family}.{toolset}.*"
        for family in ("tool", "resource", "prompt")
        for toolset in ("connector", "ddg", "web")
    )
    assert publishes_not(DDG, (*ALL, attach)) == []
