"""Prompts are filled in and completed from their descriptor."""

from __future__ import annotations

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from searchbus_bus import Directory, Worker
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ImageContent,
    PromptArgument,
    PromptDescriptor,
    PromptMessage,
    ResourceTemplate,
    TextContent,
)
from searchbus_contracts.resources import CompleteReply, PromptGetReply
from searchbus_edge.catalog.prompts import MAX_ARGUMENT_CHARS, Prompts, complete, fill
from searchbus_edge.catalog.registry import Registry

from ..conftest import UsedUp, uncounted

PROMPT = PromptDescriptor(
    name="compare", toolset="t", description="Compares.",
    arguments=(
        PromptArgument(name="earlier", required=True),
        PromptArgument(name="depth", values=("brief", "broad", "full")),
    ),
    messages=(
        PromptMessage(role="user", content=TextContent(text="Compare {earlier} ({depth}) {other}.")),
    ),
)  # fmt: skip


def test_arguments_replace_their_placeholders_once():
    """Braces inside a value stay; an optional one that is absent is empty."""
    filled = fill(PROMPT, {"earlier": "{depth}"})
    assert filled.messages[0].content.text == "Compare {depth} () {other}."
    assert (filled.messages[0].role, filled.description) == ("user", "Compares.")


def test_tools_are_named_at_the_end_of_the_last_text():
    """Nothing is added where the caller may call none."""
    filled = fill(PROMPT, {"earlier": "1"}, tools=("web_search", "ddg_web_search"))
    assert filled.messages[-1].content.text == (
        "Compare 1 () {other}.\n\nTools that you may call for this: web_search, ddg_web_search."
    )
    assert fill(PROMPT, {"earlier": "1"}, tools=()) == fill(PROMPT, {"earlier": "1"})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "needs the argument earlier"),
        ({"earlier": "a", "x": "b"}, "'x'. Allowed: earlier, depth."),
        ({"earlier": "a" * (MAX_ARGUMENT_CHARS + 1)}, "is over 100000 characters"),
    ],
)
def test_bad_arguments_are_named(arguments, text):
    """-32602."""
    with pytest.raises(MCPError) as caught:
        fill(PROMPT, arguments)
    assert caught.value.error.code == -32602
    assert text in caught.value.error.message


@pytest.mark.parametrize(
    ("argument", "typed", "values"),
    [
        ("depth", "", ["brief", "broad", "full"]),
        ("depth", "BR", ["brief", "broad"]),
        ("depth", "x", []),
        ("earlier", "", []),
        ("absent", "", []),
    ],
)
def test_completion_offers_declared_values(argument, typed, values):
    """By their start, ignoring case."""
    completion = complete(PROMPT, argument, typed).completion
    assert (completion.values, completion.total, completion.has_more) == (
        values,
        len(values),
        False,
    )


def test_completion_is_limited():
    """To a hundred values, as MCP says."""
    many = PromptArgument(name="a", values=tuple(str(n) for n in range(150)))
    prompt = PromptDescriptor(
        name="p", toolset="t", description="d", arguments=(many,), messages=PROMPT.messages
    )
    completion = complete(prompt, "a", "").completion
    assert (len(completion.values), completion.total, completion.has_more) == (100, 150, True)
    assert complete(None, "a", "").completion.values == []


def test_a_prompt_that_repeats_a_long_argument_is_refused():
    """Before it is made: a hundred thousand places of an argument would fill the memory."""
    repeated = PromptMessage(role="user", content=TextContent(text="{earlier}" * 100_000))
    prompt = replace(PROMPT, messages=(repeated,))
    assert fill(prompt, {"earlier": "abc"}).messages[0].content.text.startswith("abc")
    with pytest.raises(MCPError, match="over 1000000 characters"):
        fill(prompt, {"earlier": "a" * MAX_ARGUMENT_CHARS})


GREET = PromptDescriptor(
    name="greet", toolset="far", qualified_name="far__greet", untrusted=True, completes=True,
    arguments=(PromptArgument(name="name", required=True),),
)  # fmt: skip
TEMPLATE = ResourceTemplate(uri_template="x://{id}", name="x", toolset="far", completes=True)


class Far:
    """Fills in prompts, and keeps the requests."""

    def __init__(self):
        self.requests = []

    async def read(self, call, request):
        raise NotImplementedError

    async def get_prompt(self, call, request):
        self.requests.append(request)
        if request.arguments["name"] == "nobody":
            raise Fault(ErrorCode.UPSTREAM_FAILED, "There is nobody.")
        picture = ImageContent(data="aGk=", mime_type="image/png", annotations={"priority": 0.5})
        return PromptGetReply(
            messages=(PromptMessage(role="assistant", content=picture),), meta={"example.org/x": 1}
        )

    async def complete(self, call, request):
        self.requests.append(request)
        return CompleteReply(values=("Ada",), total=1, has_more=False)


@pytest.fixture
async def far(bus, broker):
    """(Prompts, Registry, Far) with a worker that fills in its prompts itself."""
    worker, source = Worker("far"), Far()
    worker.offer("far", prompts=[GREET], templates=[TEMPLATE], source=source)
    await broker.connect(name="far").serve(worker)
    directory = Directory(bus)
    await directory.start()
    yield Prompts(bus, uncounted(bus)), Registry(directory, ()), source
    await directory.close()


async def test_a_prompt_without_messages_is_filled_in_by_its_worker(far, reader):
    """Under its qualified name on /mcp; binary content and metadata pass through, marked."""
    prompts, registry, source = far
    assert list(registry.view("far").prompts) == ["greet"]
    view = registry.view(None)
    assert list(view.prompts) == ["far__greet"]
    found = await prompts.get(reader, view, "far__greet", {"name": "Ada"})
    assert found.model_dump(by_alias=True, exclude_none=True, mode="json") == {
        "messages": [
            {"role": "assistant", "content": {
                "type": "image", "data": "aGk=", "mimeType": "image/png",
                "annotations": {"priority": 0.5}}},
        ],
        "_meta": {"example.org/x": 1, "dev.searchbus/untrusted": True},
        "resultType": "complete",
    }  # fmt: skip
    assert (source.requests[0].prompt, source.requests[0].arguments) == ("greet", {"name": "Ada"})


async def test_a_wrong_argument_does_not_reach_the_worker(far, reader):
    """What its arguments are is in the catalogue. The worker's own failure is passed on."""
    prompts, registry, source = far
    for arguments in ({}, {"name": "Ada", "age": "36"}):
        with pytest.raises(MCPError):
            await prompts.get(reader, registry.view(None), "far__greet", arguments)
    assert source.requests == []
    with pytest.raises(Fault, match="There is nobody"):
        await prompts.get(reader, registry.view(None), "far__greet", {"name": "nobody"})


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        (types.PromptReference(type="ref/prompt", name="far__greet"), "greet"),
        (types.ResourceTemplateReference(type="ref/resource", uri="x://{id}"), "x://{id}"),
    ],
)
async def test_the_worker_suggests_values(far, reader, ref, name):
    """Of a prompt's arguments and of a template's variables."""
    prompts, registry, source = far
    params = types.CompleteRequestParams(
        ref=ref,
        argument=types.CompletionArgument(name="name", value="A"),
        context=types.CompletionContext(arguments={"greeting": "Hello"}),
    )
    completion = (await prompts.complete(reader, registry.view(None), params)).completion
    assert (completion.values, completion.total, completion.has_more) == (["Ada"], 1, False)
    (request,) = source.requests
    assert (request.name, request.argument, request.value) == (name, "name", "A")
    assert request.arguments == {"greeting": "Hello"}


async def test_suggestions_of_a_worker_count_as_calls(far, reader, bus):
    """It may look them up anywhere; beyond a caller's limits it is not asked."""
    _, registry, source = far
    read = UsedUp()
    params = types.CompleteRequestParams(
        ref=types.PromptReference(type="ref/prompt", name="far__greet"),
        argument=types.CompletionArgument(name="name", value="A"),
    )
    with pytest.raises(Fault, match="Too many calls"):
        await Prompts(bus, read).complete(reader, registry.view(None), params)
    assert (read.asked, source.requests) == (["completion/complete greet"], [])


async def test_nothing_is_suggested_for_an_unknown_template(far):
    """As before; a prompt that is unknown, or hidden, is an error."""
    prompts, registry, source = far
    argument = types.CompletionArgument(name="a", value="")
    ref = types.ResourceTemplateReference(type="ref/resource", uri="y://{id}")
    params = types.CompleteRequestParams(ref=ref, argument=argument)
    view = registry.view(None)
    assert (await prompts.complete(Actor(), view, params)).completion.values == []
    with pytest.raises(MCPError, match="Unknown prompt"):
        await prompts.get(Actor(), view, "greet", {})
    assert source.requests == []
