"""What a service offers, declared without a connection."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta, Struct

from searchbus_bus import (
    Call,
    DeclarationError,
    Toolset,
    Worker,
    endpoint,
    resource,
    resource_template,
    tool,
)
from searchbus_bus.client.request import Deadline
from searchbus_contracts import (
    VERSION,
    Actor,
    Fault,
    PromptDescriptor,
    ResourceBody,
    ResourceDescriptor,
    ResourceReadReply,
    ResourceReadRequest,
    ToolCall,
    ToolDescriptor,
    ToolReply,
)


class Lookup(Struct, forbid_unknown_fields=True):
    word: Annotated[str, Meta(min_length=1)]


class Entry(Struct):
    word: str


class Dictionary(Toolset, name="dictionary"):
    def __init__(self) -> None:
        self.calls: list[Call] = []

    @tool(title="Look up", required_roles=("READER",))
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        """Look up a word."""
        self.calls.append(call)
        return Entry(arguments.word)

    @tool(title="Another")
    async def another(self, call: Call, arguments: Lookup) -> Entry:
        """Look up another word."""
        return Entry(arguments.word)

    @resource_template("dictionary://{word}")
    async def word(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A word."""
        return ResourceReadReply(contents=())


class Endpoints:
    @endpoint
    async def say(self, call: Call, request: Lookup) -> Entry:
        return Entry(request.word)


def call(*roles: str) -> Call:
    async def send_event(event: Any) -> None:
        raise AssertionError

    return Call(
        req_id="r", service="s", subject="x", actor=Actor(roles=roles),
        deadline=Deadline.after(60), relay=send_event,
    )  # fmt: skip


def request(tool: str, arguments: Any, **more: Any) -> ToolCall:
    return ToolCall(tool=tool, arguments=msgspec.Raw(msgspec.json.encode(arguments)), **more)


def described(name: str, toolset: str = "dictionary") -> ToolDescriptor:
    return ToolDescriptor(
        name=name, toolset=toolset, description="d", input_schema={"type": "object"}
    )


async def empty(call: Call, request: ToolCall) -> ToolReply:
    return ToolReply()


def test_a_worker_has_the_version_of_the_release():
    """Sent in discovery."""
    assert Worker("words").version == VERSION


def test_the_order_of_adding_does_not_change_the_catalogue():
    """Replicas have the same hash."""
    one, two = Worker("words"), Worker("words")
    one.add(Dictionary(), Endpoints())
    one.add_tool(described("added"), empty)
    two.add_tool(described("added"), empty)
    two.add(Endpoints(), Dictionary())
    assert one.catalog.digest == two.catalog.digest
    assert [t.name for t in one.catalog.tools] == ["added", "another", "lookup"]


async def test_a_call_is_decoded_handled_and_shaped():
    """Also what the client sent besides the arguments."""
    worker, dictionary = Worker("words"), Dictionary()
    worker.add(dictionary)
    lookup = worker.find_tool("dictionary", "lookup")
    assert lookup is not None
    reply = await lookup(
        call("READER"),
        request(
            "lookup", {"word": "hat"}, input_responses={"a": 1}, state="s",
            client_capabilities=("sampling",),
        ),
    )  # fmt: skip
    assert reply == ToolReply(structured={"word": "hat"})
    (seen,) = dictionary.calls
    assert (seen.input_responses, seen.state) == ({"a": 1}, "s")
    assert seen.client_capabilities == ("sampling",)


@pytest.mark.parametrize("arguments", [{}, {"word": ""}, {"word": "hat", "more": 1}, [], None])
async def test_arguments_that_do_not_fit_do_not_reach_the_method(arguments):
    """The failure names the field."""
    worker, dictionary = Worker("words"), Dictionary()
    worker.add(dictionary)
    lookup = worker.find_tool("dictionary", "lookup")
    assert lookup is not None
    with pytest.raises(Fault) as caught:
        await lookup(call("READER"), request("lookup", arguments))
    assert caught.value.code == "invalid_argument"
    assert dictionary.calls == []


@pytest.mark.parametrize("roles", [(), ("OTHER",), ("reader",)])
async def test_a_caller_without_the_role_is_refused(roles):
    """By the worker too, whatever the edge lists."""
    worker, dictionary = Worker("words"), Dictionary()
    worker.add(dictionary)
    lookup = worker.find_tool("dictionary", "lookup")
    assert lookup is not None
    with pytest.raises(Fault) as caught:
        await lookup(call(*roles), request("lookup", {"word": "hat"}))
    assert caught.value.code == "forbidden"
    assert caught.value.failure.message == "The role READER is needed. Ask an administrator for it."
    assert dictionary.calls == []


def test_two_tools_of_one_name_are_refused():
    """Declared twice, or added beside a declared one; another toolset may have the name."""
    worker = Worker("words")
    worker.add(Dictionary())
    with pytest.raises(DeclarationError, match="lookup of toolset dictionary is declared twice"):
        worker.add_tool(described("lookup"), empty)
    with pytest.raises(DeclarationError, match="declared twice"):
        worker.add(Dictionary())
    worker.add_tool(described("lookup", "other"), empty)


def test_a_removed_tool_is_no_longer_offered():
    """And its name is free; removing an unknown one does nothing."""
    worker = Worker("words")
    worker.add_tool(described("a"), empty)
    worker.remove_tool("dictionary", "a")
    worker.remove_tool("dictionary", "unknown")
    assert worker.find_tool("dictionary", "a") is None
    assert worker.catalog.tools == ()
    worker.add_tool(described("a"), empty)


async def test_an_endpoint_decodes_and_replies():
    """Its verb is the method's name."""
    worker = Worker("words")
    worker.add(Endpoints())
    assert await worker.endpoints["say"](call(), b'{"word": "hat"}') == Entry("hat")
    with pytest.raises(Fault, match="word"):
        await worker.endpoints["say"](call(), b"{}")


def test_two_endpoints_of_one_verb_are_refused():
    """One subject has one handler."""
    worker = Worker("words")
    worker.add(Endpoints())
    with pytest.raises(DeclarationError, match=r"endpoint words\.say is declared twice"):
        worker.add(Endpoints())


def test_a_toolset_with_templates_is_read_under_its_name():
    """`.list` and `.search` only where it has these methods."""
    worker = Worker("words")
    worker.add(Dictionary())
    assert set(worker.content_endpoints) == {("resource", "dictionary", "read")}
    assert worker.content_endpoints.get(("resource", "dictionary", "list")) is None


def test_what_a_toolset_offers_at_run_time_replaces_what_it_had():
    """Other toolsets keep theirs."""
    worker = Worker("dictionary")
    for toolset in ("a", "b", "a"):
        prompts = [PromptDescriptor(name=f"p{len(worker.catalog.prompts)}", toolset=toolset)]
        uri = f"x://{toolset}"
        resources = [ResourceDescriptor(uri=uri, name="r", toolset=toolset)]
        worker.offer(toolset, prompts=prompts, resources=resources)
    catalog = worker.catalog
    assert [(p.toolset, p.name) for p in catalog.prompts] == [("a", "p2"), ("b", "p1")]
    assert [resource.uri for resource in catalog.resources] == ["x://a", "x://b"]


def reading(name: str, request: ResourceReadRequest) -> ResourceReadReply:
    return ResourceReadReply(contents=(ResourceBody(uri=request.uri, text=name),))


class Notes(Toolset, name="notes"):
    """Methods in an order that says nothing."""

    @resource_template("notes://{folder}/{name}")
    async def a_note(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A note."""
        return reading("note", request)

    @resource_template("notes://{name}.txt")
    async def b_text(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A text."""
        return reading("text", request)

    @resource("notes://about")
    async def c_about(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """About the notes."""
        return reading("about", request)

    @resource("notes://list/index")
    async def d_index(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """The index."""
        return reading("index", request)


@pytest.fixture
def reader():
    worker = Worker("notes")
    worker.add(Notes())
    return worker.content_endpoints["resource", "notes", "read"].handler


@pytest.mark.parametrize(
    ("uri", "method"),
    [
        ("notes://about", "about"),
        ("notes://list/index", "index"),
        ("notes://list/other", "note"),
        ("notes://a%20b/c", "note"),
        ("notes://x.txt", "text"),
        ("notes://a/x.txt", "note"),
    ],
)
async def test_a_fixed_uri_comes_before_a_template(reader, uri, method):
    """And a variable matches one path segment."""
    reply = await reader(None, ResourceReadRequest(uri=uri))
    assert reply.contents[0].text == method


@pytest.mark.parametrize(
    "uri", ["notes://", "notes://a/b/c", "notes:///b", "other://a/b", "notes://xtxt", "notes://a/"]
)
async def test_other_uris_are_not_found(reader, uri):
    """Typed, without the URI in the message."""
    with pytest.raises(Fault) as caught:
        await reader(None, ResourceReadRequest(uri=uri))
    assert caught.value.code == "not_found"
