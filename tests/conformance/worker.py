"""A worker on the bus that offers what the MCP conformance suite calls.

python -m tests.conformance.worker        (settings as every service)
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

from msgspec import Meta, Struct

from searchbus_bus import Call, Serving, Worker
from searchbus_contracts import (
    AudioContent,
    EmbeddedResource,
    ErrorCode,
    Fault,
    ImageContent,
    InputRequired,
    PromptArgument,
    PromptDescriptor,
    PromptMessage,
    ResourceBody,
    ResourceDescriptor,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceTemplate,
    TextContent,
    ToolDescriptor,
    ToolReply,
    describe_tool,
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


class Fixtures:
    """The tools, as the suite describes them."""

    serving: Serving

    def __init__(self) -> None:
        self.worker = Worker("conformance")
        self.toggled = False
        plain = (
            self.test_simple_text, self.test_image_content, self.test_audio_content,
            self.test_embedded_resource, self.test_multiple_content_types,
            self.test_tool_with_logging, self.test_logging_tool, self.test_error_handling,
            self.test_tool_with_progress, self.test_trigger_tool_change,
            self.test_trigger_prompt_change, self.test_streaming_elicitation,
            self.test_input_required_result_elicitation, self.test_input_required_result_sampling,
            self.test_input_required_result_list_roots,
            self.test_input_required_result_request_state,
            self.test_input_required_result_multiple_inputs,
            self.test_input_required_result_multi_round,
            self.test_input_required_result_tampered_state,
            self.test_input_required_result_capabilities,
        )  # fmt: skip
        for handler in plain:
            self.add(handler.__name__, Nothing, handler)
        self.add("test_sampling", Prompt, self.needs_a_session)
        self.add("test_elicitation", Message, self.needs_a_session)
        self.add("test_elicitation_sep1034_defaults", Nothing, self.needs_a_session)
        self.add("test_elicitation_sep1330_enums", Nothing, self.needs_a_session)
        self.add(
            "test_missing_capability", Nothing, self.test_simple_text,
            client_capabilities=("sampling",),
        )  # fmt: skip
        # The suite takes the first tool of the list for calls without arguments.
        self.add("a_simple_tool", Nothing, self.test_simple_text)
        self.add_json_schema_tool()
        self.add_header_tool()
        self.add_prompts()
        self.add_resources()

    def add(self, name: str, arguments: type[Struct], handler: Any, **options: Any) -> None:
        descriptor = describe_tool(
            name, toolset=TOOLSET, title=name, description=f"Conformance fixture {name}.",
            arguments=arguments, **options,
        )  # fmt: skip
        self.worker.tool(descriptor, arguments, handler)

    async def test_simple_text(self, call: Call, _: Any) -> ToolReply:
        return text("This is a simple text response for testing.")

    async def test_image_content(self, call: Call, _: Any) -> ToolReply:
        return ToolReply(content=(ImageContent(data=PNG, mime_type="image/png"),))

    async def test_audio_content(self, call: Call, _: Any) -> ToolReply:
        return ToolReply(content=(AudioContent(data=WAV, mime_type="audio/wav"),))

    async def test_embedded_resource(self, call: Call, _: Any) -> ToolReply:
        body = ResourceBody(
            uri="test://embedded-resource", mime_type="text/plain",
            text="This is an embedded resource content.",
        )  # fmt: skip
        return ToolReply(content=(EmbeddedResource(resource=body),))

    async def test_multiple_content_types(self, call: Call, _: Any) -> ToolReply:
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

    async def test_tool_with_logging(self, call: Call, _: Any) -> ToolReply:
        await call.log("info", "Tool execution started")
        await asyncio.sleep(0.05)
        await call.log("info", "Tool processing data")
        await asyncio.sleep(0.05)
        await call.log("info", "Tool execution completed")
        return text("Logged three lines.")

    async def test_logging_tool(self, call: Call, _: Any) -> ToolReply:
        return await self.test_tool_with_logging(call, _)

    async def test_error_handling(self, call: Call, _: Any) -> ToolReply:
        content = TextContent(text="This tool intentionally returns an error for testing")
        return ToolReply(content=(content,), is_error=True)

    async def test_tool_with_progress(self, call: Call, _: Any) -> ToolReply:
        for progress in (0, 50, 100):
            await call.progress(progress, 100)
            await asyncio.sleep(0.05)
        return text("Progress reported.")

    async def test_trigger_tool_change(self, call: Call, _: Any) -> ToolReply:
        if self.toggled:
            self.worker.withdraw_tool(TOOLSET, "test_appearing_tool")
        else:
            self.add("test_appearing_tool", Nothing, self.test_simple_text)
        self.toggled = not self.toggled
        await self.serving.refresh()
        return text("The tools changed.")

    async def test_trigger_prompt_change(self, call: Call, _: Any) -> ToolReply:
        return await self.test_trigger_tool_change(call, _)

    async def needs_a_session(self, call: Call, _: Any) -> ToolReply:
        raise Fault(ErrorCode.INVALID_ARGUMENT, "This needs a session; see the baseline.")

    async def test_streaming_elicitation(self, call: Call, _: Any) -> ToolReply:
        return await self.test_input_required_result_elicitation(call, _)

    async def test_input_required_result_elicitation(self, call: Call, _: Any) -> ToolReply:
        name = answered(call, "user_name", "name")
        if not isinstance(name, str):
            return ask(user_name=elicit("What is your name?", name="string"))
        return text(f"Hello, {name}!")

    async def test_input_required_result_sampling(self, call: Call, _: Any) -> ToolReply:
        answer = (call.input_responses or {}).get("capital_question")
        if not isinstance(answer, dict):
            return ask(capital_question=sample("What is the capital of France?"))
        return text(str(answer.get("content", {}).get("text", answer)))

    async def test_input_required_result_list_roots(self, call: Call, _: Any) -> ToolReply:
        answer = (call.input_responses or {}).get("client_roots")
        if not isinstance(answer, dict):
            return ask(client_roots=ROOTS)
        return text(f"Roots: {[root.get('uri') for root in answer.get('roots', [])]}")

    async def test_input_required_result_request_state(self, call: Call, _: Any) -> ToolReply:
        if call.state == "round-1" and call.input_responses:
            return text("state-ok")
        return ask("round-1", confirm=elicit("Please confirm", ok="boolean"))

    async def test_input_required_result_tampered_state(self, call: Call, _: Any) -> ToolReply:
        return await self.test_input_required_result_request_state(call, _)

    async def test_input_required_result_multiple_inputs(self, call: Call, _: Any) -> ToolReply:
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

    async def test_input_required_result_multi_round(self, call: Call, _: Any) -> ToolReply:
        if call.state and call.state.startswith("name:"):
            color = answered(call, "step2", "color")
            return text(f"{call.state.removeprefix('name:')} likes {color}.")
        name = answered(call, "step1", "name")
        if name is None:
            return ask("start", step1=elicit("Step 1: What is your name?", name="string"))
        return ask(
            f"name:{name}", step2=elicit("Step 2: What is your favorite color?", color="string")
        )

    async def test_input_required_result_capabilities(self, call: Call, _: Any) -> ToolReply:
        requests = {
            "elicitation": ("user_name", elicit("What is your name?", name="string")),
            "sampling": ("greeting", sample("Generate a greeting")),
        }
        able = dict(requests[c] for c in call.client_capabilities if c in requests)
        return ask(**able) if able else text("The client can be asked nothing.")

    def add_json_schema_tool(self) -> None:
        schema = {
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
        descriptor = ToolDescriptor(
            name="json_schema_2020_12_tool", toolset=TOOLSET, title="JSON Schema 2020-12",
            description="Tool with JSON Schema 2020-12 features", input_schema=schema,
        )  # fmt: skip
        self.worker.tool(descriptor, Nothing, self.test_simple_text)

    def add_header_tool(self) -> None:
        properties = {"region": {"type": "string", "x-mcp-header": "Region"}}
        descriptor = ToolDescriptor(
            name="test_custom_header", toolset=TOOLSET, title="Custom header",
            description="A parameter that clients repeat in a header",
            input_schema={"type": "object", "properties": properties},
        )  # fmt: skip
        self.worker.tool(descriptor, Nothing, self.test_simple_text)

    def add_prompts(self) -> None:
        def prompt(name: str, *contents: Any, arguments: tuple[Any, ...] = ()) -> PromptDescriptor:
            return PromptDescriptor(
                name=name, toolset=TOOLSET, description=f"Conformance fixture {name}.",
                arguments=arguments,
                messages=tuple(PromptMessage(role="user", content=c) for c in contents),
            )  # fmt: skip

        def required(name: str, *values: str) -> PromptArgument:
            return PromptArgument(name=name, description=name, required=True, values=values)

        embedded = ResourceBody(
            uri="{resourceUri}", mime_type="text/plain",
            text="Embedded resource content for testing.",
        )  # fmt: skip
        self.worker.prompts(
            prompt("test_simple_prompt", TextContent(text="This is a simple prompt for testing.")),
            prompt(
                "test_prompt_with_arguments",
                TextContent(text="Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"),
                arguments=(required("arg1", "paris", "park", "party"), required("arg2")),
            ),
            prompt(
                "test_prompt_with_embedded_resource",
                EmbeddedResource(resource=embedded),
                TextContent(text="Please process the embedded resource above."),
                arguments=(required("resourceUri"),),
            ),
            prompt(
                "test_prompt_with_image",
                ImageContent(data=PNG, mime_type="image/png"),
                TextContent(text="Please analyze the image above."),
            ),
        )

    def add_resources(self) -> None:
        self.worker.resources(
            ResourceDescriptor(
                uri="test://static-text", name="Static text", toolset=TOOLSET,
                description="A static text resource.", mime_type="text/plain",
            ),
            ResourceDescriptor(
                uri="test://static-binary", name="Static binary", toolset=TOOLSET,
                description="A static binary resource.", mime_type="image/png",
            ),
            ResourceDescriptor(
                uri="test://watched-resource", name="Watched", toolset=TOOLSET,
                description="A resource to subscribe to.", mime_type="text/plain",
            ),
        )  # fmt: skip
        self.worker.resource_templates(
            ResourceTemplate(
                uri_template="test://template/{id}/data", name="Template data", toolset=TOOLSET,
                description="A resource from a template.", mime_type="application/json",
            )
        )  # fmt: skip
        self.worker.reads_resources(TOOLSET, self.read)

    async def read(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        uri = request.uri
        if uri == "test://static-binary":
            body = ResourceBody(uri=uri, mime_type="image/png", blob=PNG)
        elif uri.startswith("test://template/"):
            key = uri.split("/")[3]
            value = f'{{"id":"{key}","templateTest":true,"data":"Data for ID: {key}"}}'
            body = ResourceBody(uri=uri, mime_type="application/json", text=value)
        elif uri in ("test://static-text", "test://watched-resource"):
            value = "This is the content of the static text resource."
            body = ResourceBody(uri=uri, mime_type="text/plain", text=value)
        else:
            raise Fault(ErrorCode.NOT_FOUND, "There is no such resource.")
        return ResourceReadReply(contents=(body,))


async def start(process: Process[ServiceSettings]) -> None:
    fixtures = Fixtures()
    fixtures.serving = await process.serve(fixtures.worker)


if __name__ == "__main__":
    sys.exit(run("conformance", load_settings(ServiceSettings), start))
