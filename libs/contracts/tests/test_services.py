"""A service's declaration: what follows from it, and which names are refused."""

from __future__ import annotations

import pytest

from searchbus_contracts.services import (
    OPERATOR,
    Container,
    Service,
    declarations_from_json,
    declarations_to_json,
    may_call,
    needed_for,
)

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
    assert declarations_from_json(declarations_to_json(declared)) == declared


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
