"""A worker on the bus that offers what the MCP conformance suite calls.

python -m tests.conformance.worker        (settings as every service)
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from searchbus_bus import (
    Call,
    Serving,
    Toolset,
    Worker,
    prompt,
    resource,
    resource_template,
    tool,
)
from searchbus_contracts import (
    AudioContent,
    Content,
    EmbeddedResource,
    ErrorCode,
    Fault,
    ImageContent,
    InputRequired,
    PromptMessage,
    ResourceBody,
    ResourceReadReply,
    ResourceReadRequest,
    TextContent,
    ToolCall,
    ToolDescriptor,
    ToolReply,
)
from searchbus_runtime import Process, ServiceSettings, load_settings, run

TOOLSET = "conformance"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="


class Nothing(Struct):
    pass


class Prompt(Struct):
    prompt: Annotated[str, Meta(description="What to ask the model.")]


class Message(Struct):
    message: Annotated[str, Meta(description="What to show the user.")]


SIMPLE_TEXT = "This is a simple text response for testing."


def needs_a_session() -> Fault:
    return Fault(ErrorCode.INVALID_ARGUMENT, "This needs a session; see the baseline.")


def messages(*items: Content) -> tuple[PromptMessage, ...]:
    return tuple(PromptMessage(role="user", content=item) for item in items)


def contents(body: ResourceBody) -> ResourceReadReply:
    return ResourceReadReply(contents=(body,))


def text(value: str) -> ToolReply:
    return ToolReply(content=(TextContent(text=value),))


def elicit(message: str, **properties: Any) -> dict[str, Any]:
    return {
        "method": "elicitation/create",
        "params": {
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {name: {"type": kind} for name, kind in properties.items()},
                "required": list(properties),
            },
        },
    }


def sample(prompt: str, max_tokens: int = 100) -> dict[str, Any]:
    content = {"type": "text", "text": prompt}
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": content}], "maxTokens": max_tokens},
    }


ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}


def ask(state: str | None = None, **requests: dict[str, Any]) -> ToolReply:
    return ToolReply(input_required=InputRequired(requests=requests, state=state))


def answered(call: Call, key: str, field: str) -> Any:
    """A field of the content of an accepted elicitation; None where it is missing or odd."""
    answer = (call.input_responses or {}).get(key)
    content = answer.get("content") if isinstance(answer, dict) else None
    return content.get(field) if isinstance(content, dict) else None


class Fixtures(Toolset, name=TOOLSET):
    """The tools, prompts and resources, as the suite describes them."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.serving: Serving | None = None
        self.toggled = False

    @tool(title="test_simple_text")
    async def test_simple_text(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_simple_text."""
        return text(SIMPLE_TEXT)

    @tool(title="test_image_content")
    async def test_image_content(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_image_content."""
        return ToolReply(content=(ImageContent(data=PNG, mime_type="image/png"),))

    @tool(title="test_audio_content")
    async def test_audio_content(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_audio_content."""
        return ToolReply(content=(AudioContent(data=WAV, mime_type="audio/wav"),))

    @tool(title="test_embedded_resource")
    async def test_embedded_resource(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_embedded_resource."""
        body = ResourceBody(
            uri="test://embedded-resource", mime_type="text/plain",
            text="This is an embedded resource content.",
        )  # fmt: skip
        return ToolReply(content=(EmbeddedResource(resource=body),))

    @tool(title="test_multiple_content_types")
    async def test_multiple_content_types(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_multiple_content_types."""
        body = ResourceBody(
            uri="test://mixed-content-resource", mime_type="application/json",
            text='{"test":"data","value":123}',
        )  # fmt: skip
        return ToolReply(
            content=(
                TextContent(text="Multiple content types test:"),
                ImageContent(data=PNG, mime_type="image/png"),
                EmbeddedResource(resource=body),
            )
        )

    @tool(title="test_tool_with_logging")
    async def test_tool_with_logging(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_tool_with_logging."""
        await call.log("info", "Tool execution started")
        await asyncio.sleep(0.05)
        await call.log("info", "Tool processing data")
        await asyncio.sleep(0.05)
        await call.log("info", "Tool execution completed")
        return text("Logged three lines.")

    @tool(title="test_logging_tool")
    async def test_logging_tool(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_logging_tool."""
        return await self.test_tool_with_logging(call, _)

    @tool(title="test_error_handling")
    async def test_error_handling(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_error_handling."""
        content = TextContent(text="This tool intentionally returns an error for testing")
        return ToolReply(content=(content,), is_error=True)

    @tool(title="test_tool_with_progress")
    async def test_tool_with_progress(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_tool_with_progress."""
        for progress in (0, 50, 100):
            await call.progress(progress, 100)
            await asyncio.sleep(0.05)
        return text("Progress reported.")

    @tool(title="test_trigger_tool_change")
    async def test_trigger_tool_change(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_trigger_tool_change."""
        if self.toggled:
            self.worker.remove_tool(TOOLSET, "test_appearing_tool")
        else:
            self.worker.add_tool(APPEARING_TOOL, reply_simple_text)
        self.toggled = not self.toggled
        if self.serving is not None:
            await self.serving.refresh()
        return text("The tools changed.")

    @tool(title="test_trigger_prompt_change")
    async def test_trigger_prompt_change(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_trigger_prompt_change."""
        return await self.test_trigger_tool_change(call, _)

    @tool(title="test_sampling")
    async def test_sampling(self, call: Call, _: Prompt) -> ToolReply:
        """Conformance fixture test_sampling."""
        raise needs_a_session()

    @tool(title="test_elicitation")
    async def test_elicitation(self, call: Call, _: Message) -> ToolReply:
        """Conformance fixture test_elicitation."""
        raise needs_a_session()

    @tool(title="test_elicitation_sep1034_defaults")
    async def test_elicitation_sep1034_defaults(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_elicitation_sep1034_defaults."""
        raise needs_a_session()

    @tool(title="test_elicitation_sep1330_enums")
    async def test_elicitation_sep1330_enums(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_elicitation_sep1330_enums."""
        raise needs_a_session()

    @tool(title="test_missing_capability", client_capabilities=("sampling",))
    async def test_missing_capability(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_missing_capability."""
        return await self.test_simple_text(call, _)

    # The suite takes the first tool of the list for calls without arguments.
    @tool(title="a_simple_tool")
    async def a_simple_tool(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture a_simple_tool."""
        return await self.test_simple_text(call, _)

    @tool(title="test_streaming_elicitation")
    async def test_streaming_elicitation(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_streaming_elicitation."""
        return await self.test_input_required_result_elicitation(call, _)

    @tool(title="test_input_required_result_elicitation")
    async def test_input_required_result_elicitation(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_elicitation."""
        name = answered(call, "user_name", "name")
        if not isinstance(name, str):
            return ask(user_name=elicit("What is your name?", name="string"))
        return text(f"Hello, {name}!")

    @tool(title="test_input_required_result_sampling")
    async def test_input_required_result_sampling(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_sampling."""
        answer = (call.input_responses or {}).get("capital_question")
        if not isinstance(answer, dict):
            return ask(capital_question=sample("What is the capital of France?"))
        return text(str(answer.get("content", {}).get("text", answer)))

    @tool(title="test_input_required_result_list_roots")
    async def test_input_required_result_list_roots(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_list_roots."""
        answer = (call.input_responses or {}).get("client_roots")
        if not isinstance(answer, dict):
            return ask(client_roots=ROOTS)
        return text(f"Roots: {[root.get('uri') for root in answer.get('roots', [])]}")

    @tool(title="test_input_required_result_request_state")
    async def test_input_required_result_request_state(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_request_state."""
        if call.state == "round-1" and call.input_responses:
            return text("state-ok")
        return ask("round-1", confirm=elicit("Please confirm", ok="boolean"))

    @tool(title="test_input_required_result_tampered_state")
    async def test_input_required_result_tampered_state(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_tampered_state."""
        return await self.test_input_required_result_request_state(call, _)

    @tool(title="test_input_required_result_multiple_inputs")
    async def test_input_required_result_multiple_inputs(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_multiple_inputs."""
        if call.state and {"user_name", "greeting", "client_roots"} <= set(
            call.input_responses or {}
        ):
            return text("All three arrived.")
        return ask(
            "waiting",
            user_name=elicit("What is your name?", name="string"),
            greeting=sample("Generate a greeting", 50),
            client_roots=ROOTS,
        )

    @tool(title="test_input_required_result_multi_round")
    async def test_input_required_result_multi_round(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_multi_round."""
        if call.state and call.state.startswith("name:"):
            color = answered(call, "step2", "color")
            return text(f"{call.state.removeprefix('name:')} likes {color}.")
        name = answered(call, "step1", "name")
        if name is None:
            return ask("start", step1=elicit("Step 1: What is your name?", name="string"))
        return ask(
            f"name:{name}", step2=elicit("Step 2: What is your favorite color?", color="string")
        )

    @tool(title="test_input_required_result_capabilities")
    async def test_input_required_result_capabilities(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_input_required_result_capabilities."""
        requests = {
            "elicitation": ("user_name", elicit("What is your name?", name="string")),
            "sampling": ("greeting", sample("Generate a greeting")),
        }
        able = dict(requests[c] for c in call.client_capabilities if c in requests)
        return ask(**able) if able else text("The client can be asked nothing.")

    @prompt(title="Simple")
    def test_simple_prompt(self) -> str:
        """Conformance fixture test_simple_prompt."""
        return "This is a simple prompt for testing."

    @prompt(title="With arguments")
    def test_prompt_with_arguments(
        self,
        arg1: Annotated[Literal["paris", "park", "party"], Meta(description="arg1")],
        arg2: Annotated[str, Meta(description="arg2")],
    ) -> str:
        """Conformance fixture test_prompt_with_arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @prompt(title="With a resource")
    def test_prompt_with_embedded_resource(
        self,
        resourceUri: Annotated[str, Meta(description="resourceUri")],
    ) -> tuple[PromptMessage, ...]:
        """Conformance fixture test_prompt_with_embedded_resource."""
        embedded = ResourceBody(
            uri=resourceUri, mime_type="text/plain", text="Embedded resource content for testing."
        )
        return messages(
            EmbeddedResource(resource=embedded),
            TextContent(text="Please process the embedded resource above."),
        )

    @prompt(title="With an image")
    def test_prompt_with_image(self) -> tuple[PromptMessage, ...]:
        """Conformance fixture test_prompt_with_image."""
        return messages(
            ImageContent(data=PNG, mime_type="image/png"),
            TextContent(text="Please analyze the image above."),
        )

    @resource("test://static-text", name="Static text", mime_type="text/plain")
    async def static_text(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A static text resource."""
        return contents(
            ResourceBody(
                uri=request.uri, mime_type="text/plain",
                text="This is the content of the static text resource.",
            )
        )  # fmt: skip

    @resource("test://static-binary", name="Static binary", mime_type="image/png")
    async def static_binary(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A static binary resource."""
        return contents(ResourceBody(uri=request.uri, mime_type="image/png", blob=PNG))

    @resource("test://watched-resource", name="Watched", mime_type="text/plain")
    async def watched(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A resource to subscribe to."""
        return await self.static_text(call, request)

    @resource_template(
        "test://template/{id}/data", name="Template data", mime_type="application/json"
    )
    async def template_data(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A resource from a template."""
        key = request.uri.split("/")[3]
        value = f'{{"id":"{key}","templateTest":true,"data":"Data for ID: {key}"}}'
        return contents(ResourceBody(uri=request.uri, mime_type="application/json", text=value))


async def reply_simple_text(call: Call, request: ToolCall) -> ToolReply:
    return text(SIMPLE_TEXT)


APPEARING_TOOL = ToolDescriptor(
    name="test_appearing_tool", toolset=TOOLSET, title="test_appearing_tool",
    description="Conformance fixture test_appearing_tool.", input_schema={"type": "object"},
)  # fmt: skip
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {
        "properties": {"contactMethod": {"const": "phone"}},
        "required": ["contactMethod"],
    },
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
JSON_SCHEMA_TOOL = ToolDescriptor(
    name="json_schema_2020_12_tool", toolset=TOOLSET, title="JSON Schema 2020-12",
    description="Tool with JSON Schema 2020-12 features", input_schema=SCHEMA_2020_12,
)  # fmt: skip
HEADER_TOOL = ToolDescriptor(
    name="test_custom_header", toolset=TOOLSET, title="Custom header",
    description="A parameter that clients repeat in a header",
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
)  # fmt: skip


async def start(process: Process[ServiceSettings]) -> None:
    worker = Worker("conformance")
    fixtures = Fixtures(worker)
    worker.add(fixtures)
    for descriptor in (JSON_SCHEMA_TOOL, HEADER_TOOL):
        worker.add_tool(descriptor, reply_simple_text)
    fixtures.serving = await process.serve(worker)


if __name__ == "__main__":
    sys.exit(run("conformance", load_settings(ServiceSettings), start))
