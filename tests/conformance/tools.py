"""The tools of the conformance suite that reply at once."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from searchbus_bus import Call, Serving, Toolset, Worker, tool
from searchbus_contracts import (
    AudioContent,
    EmbeddedResource,
    ErrorCode,
    Fault,
    ImageContent,
    ResourceBody,
    TextContent,
    ToolReply,
)

from .descriptors import APPEARING_TOOL
from .replies import PNG, SIMPLE_TEXT, TOOLSET, WAV, Nothing, failed, reply_simple_text, text


class Prompt(Struct):
    prompt: Annotated[str, Meta(description="What to ask the model.")]


class Message(Struct):
    message: Annotated[str, Meta(description="What to show the user.")]


def needs_a_session() -> Fault:
    return Fault(ErrorCode.INVALID_ARGUMENT, "This needs a session; see the baseline.")


class Tools(Toolset, name=TOOLSET):
    """As the suite describes them."""

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
        return failed("This tool intentionally returns an error for testing")

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
