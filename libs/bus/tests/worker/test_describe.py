"""Descriptors from decorated methods."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from searchbus_bus import (
    Call,
    DeclarationError,
    Toolset,
    WithMeta,
    Worker,
    declared_tools,
    endpoint,
    prompt,
    resource,
    resource_list,
    resource_template,
    tool,
)
from searchbus_bus.worker.describe import endpoint_types
from searchbus_contracts import (
    PromptMessage,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    TextContent,
    ToolAnnotations,
    ToolDescriptor,
)
from searchbus_contracts.retrieval import ListReply, ListRequest, SearchReply


class Lookup(Struct, forbid_unknown_fields=True):
    """Not for a model."""

    word: Annotated[str, Meta(min_length=1, description="The word.")]


class Entry(Struct):
    word: str
    meanings: list[str]


class Dictionary(Toolset, name="dictionary"):
    @tool(
        title="Look up a word",
        annotations=ToolAnnotations(read_only_hint=True),
        required_roles=("READER",),
        examples=("what does hat mean",),
    )
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        """Look up a word
        in the dictionary.

        Plain words only:
        - nouns
        - verbs
        """
        return Entry(arguments.word, [])

    @tool(title="Rhymes")
    async def rhymes(self, call: Call, arguments: Lookup) -> WithMeta[list[Entry]]:
        """Find rhymes."""
        return WithMeta([])

    @prompt(title="Compare two words", keywords=("difference",))
    def compare(
        self,
        first: Annotated[str, Meta(description="A word.")],
        style: Annotated[Literal["short", "long"] | None, Meta(description="How.")] = None,
        extra: str = "",
    ) -> str:
        """How two words differ."""
        return f"Compare {first} in a {style} text. {extra}"

    @prompt(title="Talk")
    def talk(self) -> tuple[PromptMessage, ...]:
        """A dialogue."""
        return (
            PromptMessage(role="user", content=TextContent(text="Hello.")),
            PromptMessage(role="assistant", content=TextContent(text="Hello!")),
        )

    @resource("dictionary://about", title="About", mime_type="text/plain")
    async def about(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """What this is."""
        return ResourceReadReply(contents=())

    @resource_template("dictionary://{letter}/{word}", name="word", required_roles=("READER",))
    async def read_word(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A word."""
        return ResourceReadReply(contents=())

    @resource_list
    async def words(self, call: Call, request: ResourceListRequest) -> ResourceListReply:
        return ResourceListReply(resources=())

    def configure(self, descriptor: ToolDescriptor) -> ToolDescriptor:
        return msgspec.structs.replace(descriptor, costly=descriptor.name == "lookup")


def offered():
    worker = Worker("words")
    worker.add(Dictionary())
    return worker.catalog


def test_a_method_is_a_tool_with_its_name_docstring_and_types():
    """And the options of its decorator."""
    found = declared_tools(Dictionary)[0]
    assert (found.name, found.toolset, found.title) == ("lookup", "dictionary", "Look up a word")
    assert found.required_roles == ("READER",)
    assert found.annotations == ToolAnnotations(read_only_hint=True)
    assert found.examples == ("what does hat mean",)
    assert found.input_schema["properties"]["word"]["description"] == "The word."
    assert "description" not in found.input_schema
    assert found.output_schema is not None
    assert found.output_schema["required"] == ["word", "meanings"]
    assert (found.renderer, found.timeout_ms) == ("json", 30_000)


def test_the_lines_of_a_paragraph_are_joined_and_lists_kept():
    """A description wraps at the client, not where the source code does."""
    description = declared_tools(Dictionary)[0].description
    assert description == (
        "Look up a word in the dictionary.\n\nPlain words only:\n- nouns\n- verbs"
    )


def test_a_list_is_described_as_results():
    """Structured content is an object in MCP."""
    rhymes = declared_tools(Dictionary)[1]
    assert rhymes.renderer == "results"
    assert rhymes.output_schema is not None
    assert rhymes.output_schema["properties"]["results"]["type"] == "array"


def test_the_deployment_may_change_a_tool():
    """proto/ has it as declared; clients get what `configure` returned."""
    assert not any(found.costly for found in declared_tools(Dictionary))
    assert [found.name for found in offered().tools if found.costly] == ["lookup"]


def test_a_field_over_its_limit_is_refused():
    """As a peer would refuse it."""

    class Slow(Toolset, name="slow"):
        @tool(title="Slow", timeout_ms=600_001)
        async def lookup(self, call: Call, arguments: Lookup) -> Entry:
            """Look up."""
            return Entry("", [])

    with pytest.raises(msgspec.ValidationError, match="timeout_ms"):
        Worker("words").add(Slow())


def test_a_prompt_is_filled_with_placeholders():
    """The edge replaces them."""
    found = next(p for p in offered().prompts if p.name == "compare")
    (message,) = found.messages
    assert message.role == "user"
    assert message.content == TextContent(text="Compare {first} in a {style} text. {extra}")
    assert (found.title, found.description) == ("Compare two words", "How two words differ.")
    assert [(a.name, a.required, a.values, a.description) for a in found.arguments] == [
        ("first", True, (), "A word."),
        ("style", False, ("short", "long"), "How."),
        ("extra", False, (), None),
    ]


def test_a_prompt_may_have_several_messages():
    """Of both roles."""
    found = next(p for p in offered().prompts if p.name == "talk")
    assert [message.role for message in found.messages] == ["user", "assistant"]
    assert found.arguments == ()


def test_resources_and_templates_are_described():
    """A template lists and searches where the toolset has these methods."""
    (fixed,) = offered().resources
    assert (fixed.uri, fixed.name, fixed.title) == ("dictionary://about", "about", "About")
    assert (fixed.description, fixed.mime_type) == ("What this is.", "text/plain")
    (template,) = offered().resource_templates
    assert (template.uri_template, template.name) == ("dictionary://{letter}/{word}", "word")
    assert (template.lists, template.searches) == (True, False)
    assert template.required_roles == ("READER",)


class Endpoints:
    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> ListReply:
        return ListReply()


class Contradiction:
    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> SearchReply:
        return SearchReply(hits=())


def test_an_endpoint_has_the_methods_name_and_types():
    """Without the underscore that avoids a name of Python."""
    assert endpoint_types(Endpoints, "list_", "retrieval") == ("list", ListRequest, ListReply)


def test_an_endpoint_that_contradicts_the_wire_is_refused():
    """channels.py names the types of its subject; other services may use the verb otherwise."""
    with pytest.raises(DeclarationError, match="ListRequest → ListReply"):
        endpoint_types(Contradiction, "list_", "retrieval")
    assert endpoint_types(Contradiction, "list_", "other")[0] == "list"
