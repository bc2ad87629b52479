"""The prompts of the conformance suite."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from searchbus_bus import Toolset, prompt
from searchbus_contracts import (
    Content,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceBody,
    TextContent,
)

from .replies import PNG, TOOLSET


def messages(*items: Content) -> tuple[PromptMessage, ...]:
    return tuple(PromptMessage(role="user", content=item) for item in items)


class Prompts(Toolset, name=TOOLSET):
    """As the suite describes them."""

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
