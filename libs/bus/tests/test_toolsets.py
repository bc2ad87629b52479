"""Declaring tools, prompts, resources and endpoints as typed methods."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from searchbus_bus import (
    Call,
    DeclarationError,
    MemoryBroker,
    Toolset,
    WithMeta,
    Worker,
    endpoint,
    prompt,
    resource,
    resource_list,
    resource_template,
    tool,
)
from searchbus_contracts import (
    ErrorCode,
    Fault,
    ResourceBody,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ToolCall,
    ToolDescriptor,
    ToolReply,
)
from searchbus_contracts.retrieval import ListReply, ListRequest, SearchReply


class Lookup(Struct, forbid_unknown_fields=True):
    word: Annotated[str, Meta(min_length=1, description="The word.")]


class Entry(Struct):
    word: str
    meanings: list[str]


class Dictionary(Toolset, name="dictionary"):
    @tool(title="Look up a word", keywords=("thesaurus",), timeout_ms=5_000)
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        """Look up a word
        in the dictionary.

        Plain words only.
        """
        return Entry(arguments.word, ["a meaning"])

    @tool(title="Words that sound alike")
    async def rhymes(self, call: Call, arguments: Lookup) -> list[Entry]:
        """Find rhymes."""
        return [Entry(arguments.word, [])]

    @tool(title="Spell")
    async def spell(self, call: Call, arguments: Lookup) -> str:
        """Spell a word."""
        return "-".join(arguments.word)

    @tool(title="With metadata")
    async def origin(self, call: Call, arguments: Lookup) -> WithMeta[Entry]:
        """Where a word comes from."""
        return WithMeta(Entry(arguments.word, []), {"source": "test"})

    @prompt(title="Compare two words", keywords=("difference",))
    def compare(
        self,
        first: Annotated[str, Meta(description="A word.")],
        style: Annotated[Literal["short", "long"] | None, Meta(description="How.")] = None,
    ) -> str:
        """How two words differ."""
        return f"Compare {first} in a {style} text."

    @resource("dictionary://about", mime_type="text/plain")
    async def about(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """What this is."""
        return _body(request.uri, "about")

    @resource_template("dictionary://{letter}/{word}", name="word")
    async def word(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A word."""
        return _body(request.uri, "word")

    @resource_list
    async def words(self, call: Call, request: ResourceListRequest) -> ResourceListReply:
        return ResourceListReply(resources=())


class Endpoints:
    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> ListReply:
        return ListReply()


def _body(uri: str, text: str) -> ResourceReadReply:
    return ResourceReadReply(contents=(ResourceBody(uri=uri, text=text),))


def offered() -> Worker:
    worker = Worker("dictionary")
    worker.add(Dictionary())
    return worker


async def call_tool(worker: Worker, name: str, arguments: dict[str, Any]) -> ToolReply:
    bus = MemoryBroker().connect(name="test")
    serving = await bus.serve(worker)
    try:
        return await bus.request(
            bus.subjects.tool("dictionary", name),
            ToolCall(tool=name, arguments=msgspec.Raw(msgspec.json.encode(arguments))),
            ToolReply,
            service=worker.service,
            timeout_s=10,
        )
    finally:
        await serving.drain(1)
        await bus.close()


def test_a_method_is_a_tool_with_its_name_docstring_and_types() -> None:
    lookup = offered().find_tool("dictionary", "lookup")
    assert lookup is not None
    found = lookup.descriptor
    assert (found.name, found.toolset, found.timeout_ms) == ("lookup", "dictionary", 5_000)
    assert found.description == "Look up a word in the dictionary.\n\nPlain words only."
    assert found.input_schema["properties"]["word"]["description"] == "The word."
    assert found.output_schema is not None
    assert found.output_schema["required"] == ["word", "meanings"]
    assert found.renderer == "json"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lookup", {"word": "hat", "meanings": ["a meaning"]}),
        ("rhymes", {"results": [{"word": "hat", "meanings": []}]}),
    ],
)
async def test_the_reply_type_decides_the_structured_form(name: str, expected: Any) -> None:
    assert (await call_tool(offered(), name, {"word": "hat"})).structured == expected


async def test_a_str_is_one_text() -> None:
    reply = await call_tool(offered(), "spell", {"word": "hat"})
    assert reply.structured is None
    assert [item.text for item in reply.content] == ["h-a-t"]  # type: ignore[union-attr]


async def test_metadata_travels_beside_the_reply() -> None:
    reply = await call_tool(offered(), "origin", {"word": "hat"})
    assert reply.structured == {"word": "hat", "meanings": []}
    assert reply.meta == {"source": "test"}


async def test_bad_arguments_are_refused_before_the_method_runs() -> None:
    with pytest.raises(Fault) as caught:
        await call_tool(offered(), "lookup", {"word": ""})
    assert caught.value.code == ErrorCode.INVALID_ARGUMENT
    assert "word" in caught.value.failure.message


def test_a_prompt_is_filled_with_placeholders() -> None:
    (found,) = offered().catalog.prompts
    assert found.messages[0].content.text == "Compare {first} in a {style} text."  # type: ignore[union-attr]
    assert [(a.name, a.required, a.values) for a in found.arguments] == [
        ("first", True, ()),
        ("style", False, ("short", "long")),
    ]
    assert found.arguments[0].description == "A word."


async def test_the_uri_decides_which_method_reads() -> None:
    worker = offered()
    (template,) = worker.catalog.resource_templates
    assert (template.lists, template.searches, template.name) == (True, False, "word")
    bus = MemoryBroker().connect(name="test")
    serving = await bus.serve(worker)
    subject = bus.subjects.resource("dictionary", "read")

    async def read(uri: str) -> str | None:
        request = ResourceReadRequest(uri=uri)
        reply = await bus.request(
            subject, request, ResourceReadReply, service="dictionary", timeout_s=10
        )
        return reply.contents[0].text

    assert await read("dictionary://about") == "about"
    assert await read("dictionary://h/hat") == "word"
    with pytest.raises(Fault, match="no such resource"):
        await read("dictionary://h/hat/more")
    await serving.drain(1)
    await bus.close()


def test_an_endpoint_has_the_methods_name_and_types() -> None:
    worker = Worker("retrieval")
    worker.add(Endpoints())
    assert worker.endpoints["list"].request_type is ListRequest
    assert worker.endpoints["list"].reply_type is ListReply


def test_an_endpoint_that_contradicts_the_wire_is_refused() -> None:
    worker = Worker("retrieval")
    with pytest.raises(DeclarationError, match="ListRequest → ListReply"):
        worker.add(Contradiction())


class Contradiction:
    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> SearchReply:
        return SearchReply(hits=())


class Undocumented(Toolset, name="undocumented"):
    @tool(title="No docstring")
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        return Entry("", [])


class Untyped(Toolset, name="untyped"):
    @tool(title="No annotations")
    async def lookup(self, call, arguments):  # type: ignore[no-untyped-def]
        """Look up."""


class WrongReply(Toolset, name="wrong"):
    @tool(title="A number")
    async def lookup(self, call: Call, arguments: Lookup) -> int:  # type: ignore[type-var]
        """Look up."""
        return 1


class Nameless(Toolset):
    @tool(title="No toolset")
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        """Look up."""
        return Entry("", [])


class Plain:
    @tool(title="Not in a toolset")
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        """Look up."""
        return Entry("", [])


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (Undocumented, "no docstring"),
        (Untyped, "signature"),
        (WrongReply, "returns a Struct"),
        (Nameless, "has no name"),
        (Plain, "only a Toolset"),
        (object, "no decorated methods"),
    ],
)
def test_what_cannot_be_offered_is_refused_with_the_reason(part: Any, reason: str) -> None:
    with pytest.raises(DeclarationError, match=reason):
        Worker("dictionary").add(part())


def test_two_tools_of_one_name_are_refused() -> None:
    worker = offered()
    with pytest.raises(DeclarationError, match="declared twice"):
        worker.add(Dictionary())


class Costly(Dictionary, name="dictionary"):
    def configure(self, descriptor: ToolDescriptor) -> ToolDescriptor:
        return msgspec.structs.replace(descriptor, costly=descriptor.name == "lookup")


def test_a_toolset_adapts_its_tools_to_the_deployment() -> None:
    worker = Worker("dictionary")
    worker.add(Costly())
    assert [t.name for t in worker.catalog.tools if t.costly] == ["lookup"]


class Liar(Toolset, name="dictionary"):
    @tool(title="A wrong field")
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        """Look up."""
        return Entry(arguments.word, meanings="none")  # type: ignore[arg-type]

    @tool(title="Another type")
    async def rhymes(self, call: Call, arguments: Lookup) -> Entry:
        """Find rhymes."""
        return [1]  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["lookup", "rhymes"])
async def test_a_reply_that_does_not_fit_its_type_is_an_internal_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("searchbus_bus.toolsets.forms.CHECK_REPLIES", True)
    worker = Worker("dictionary")
    worker.add(Liar())
    with pytest.raises(Fault) as caught:
        await call_tool(worker, name, {"word": "hat"})
    assert caught.value.code == ErrorCode.INTERNAL


_SNIPPET = """
from msgspec import Struct
from searchbus_bus import Call, Toolset, endpoint, tool
from searchbus_contracts.retrieval import ListReply, ListRequest

class Lookup(Struct):
    word: str

class Entry(Struct):
    word: str

class Dictionary(Toolset, name="dictionary"):
    @tool(title="Look up")
    async def lookup(self, call: Call, arguments: Lookup) -> Entry:
        \"\"\"Look up.\"\"\"
        return {reply}

class Endpoints:
    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> {listed}:
        return {listed}()
"""


@pytest.mark.parametrize(
    ("reply", "listed", "complaint"),
    [
        ("Entry(arguments.word)", "ListReply", "Success"),
        ("1", "ListReply", "return-value"),
        ("Lookup(arguments.word)", "ListReply", "return-value"),
        ("Entry(arguments.word)", "int", "type-var"),
    ],
)
def test_mypy_refuses_a_body_of_another_reply_type(
    reply: str, listed: str, complaint: str, tmp_path: Path
) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(_SNIPPET.format(reply=reply, listed=listed))
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", snippet],
        cwd=root, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert complaint in done.stdout
