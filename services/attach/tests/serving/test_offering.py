"""The toolsets of a worker follow servers and selections."""

from __future__ import annotations

from types import SimpleNamespace

from searchbus_attach.declare.views import parse_selection
from searchbus_attach.definitions.describe_contents import ServerContents
from searchbus_attach.serving.offering import Offering
from searchbus_bus import Worker
from searchbus_contracts import PromptDescriptor, ToolDescriptor


def server(name: str, *tools: str, prompts: tuple[str, ...] = ()):
    """What is used of an attached server."""
    return SimpleNamespace(
        descriptors=tuple(
            ToolDescriptor(
                name=tool, toolset=name, qualified_name=f"{name}__{tool}", description=tool,
                input_schema={"type": "object"},
            )
            for tool in tools
        ),
        call=None,
        known=True,
        contents=ServerContents(
            prompts=tuple(PromptDescriptor(name=prompt, toolset=name) for prompt in prompts)
        ),
        source=SimpleNamespace(read=None, get_prompt=None, complete=None),
    )  # fmt: skip


def names(worker: Worker) -> list[str]:
    return [f"{tool.toolset}.{tool.name}" for tool in worker.catalog.tools]


def test_a_server_is_offered_changed_and_taken_back():
    """With its prompts."""
    worker = Worker("attach")
    offering = Offering(worker)
    offering.offer("a", server("a", "x", "y", prompts=("p",)))
    assert names(worker) == ["a.x", "a.y"]
    assert worker.find_content("prompt", "a", "get")
    offering.offer("a", server("a", "y", "z"))
    assert names(worker) == ["a.y", "a.z"]
    assert worker.find_content("prompt", "a", "get") is None
    offering.offer("a", None)
    assert worker.catalog.toolsets == ()


def test_a_selection_follows_its_servers():
    """It is gone with its declaration; its name may be a server's then."""
    worker = Worker("attach")
    offering = Offering(worker)
    servers = {"a": server("a", "x"), "b": server("b", "x")}
    for name, found in servers.items():
        offering.offer(name, found)
    offering.declare({"both": parse_selection("both", {"allow": ["*__x"]})})
    offering.offer_selections(servers)
    assert names(worker) == ["a.x", "b.x", "both.a__x", "both.b__x"]
    assert [(view.name, view.tools) for view in offering.views] == [("both", ("a__x", "b__x"))]
    servers["a"] = server("a", "x", "y__x")
    offering.offer("a", servers["a"])
    offering.offer_selections(servers)
    assert "both.a__y__x" in names(worker)
    assert offering.views[0].problems == ()
    offering.declare({"both": parse_selection("both", {"allow": ["*__x"], "deny": ["b__*", "c*"]})})
    servers["b"].known, servers["b"].descriptors = False, ()
    offering.offer_selections(servers)
    (problem,) = offering.views[0].problems
    assert problem.startswith("'c*' of 'deny' matches no tool.")
    del servers["b"]
    servers["both"] = server("both", "own")
    offering.declare({})
    for name in ("b", "both"):
        offering.offer(name, servers.get(name))
    offering.offer_selections(servers)
    assert names(worker) == ["a.x", "a.y__x", "both.own"]
    assert offering.views == ()
