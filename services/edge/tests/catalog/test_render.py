"""Descriptors and replies as types of MCP."""

from __future__ import annotations

from searchbus_contracts import (
    PromptArgument,
    PromptDescriptor,
    PromptMessage,
    ResourceBody,
    ResourceDescriptor,
    ResourceTemplate,
    TextContent,
    ToolAnnotations,
)
from searchbus_contracts.tools import AudioContent, EmbeddedResource, ImageContent, ResourceLink
from searchbus_edge.catalog import render


def test_tool_has_the_workers_schema_under_the_listed_name(make_tool):
    """Title, description and annotations come along."""
    hints = ToolAnnotations(read_only_hint=True)
    listed = make_tool("say", listed_as="office_say", title="Say", annotations=hints)
    tool = render.tool(listed)
    assert (tool.name, tool.title, tool.description) == ("office_say", "Say", "Does say.")
    assert tool.annotations.read_only_hint is True
    assert tool.output_schema is None


def test_output_schema_is_the_workers_or_the_failures(make_tool):
    """Definitions stay at the root, where references look for them."""
    schema = {"type": "object", "$defs": {"A": {"type": "string"}}, "properties": {}}
    found = render.output_schema(make_tool(output_schema=schema))
    assert found["$defs"] == {"A": {"type": "string"}}
    assert found["anyOf"] == [{"type": "object", "properties": {}}, render.ERROR_SCHEMA]
    assert "$defs" in schema


def test_every_kind_of_content_is_rendered():
    """Text, image, audio, resource and link."""
    body = ResourceBody(uri="a://b", mime_type="text/plain", text="t")
    blocks = [
        TextContent(text="t", annotations={"audience": ["user"]}),
        ImageContent(data="AA==", mime_type="image/png"),
        AudioContent(data="AA==", mime_type="audio/wav"),
        EmbeddedResource(resource=body),
        ResourceLink(uri="a://b", name="b"),
    ]
    rendered = [render.content_block(block) for block in blocks]
    assert [block.type for block in rendered] == [
        "text", "image", "audio", "resource", "resource_link"
    ]  # fmt: skip
    assert rendered[0].annotations.audience == ["user"]


def test_annotations_that_mcp_does_not_have_cost_nothing_else(caplog):
    """They are left out of a result and of a list."""
    wrong = {"priority": 5}
    block = render.content_block(TextContent(text="t", annotations=wrong))
    listed = render.resource(
        ResourceDescriptor(toolset="t", uri="a://b", name="b", annotations=wrong)
    )
    assert (block.text, block.annotations) == ("t", None)
    assert (listed.name, listed.annotations) == ("b", None)
    assert caplog.text.count("annotations are left out") == 2


def test_resources_are_text_or_base64():
    """Never both."""
    text = render.resource_contents(ResourceBody(uri="a://b", mime_type="text/plain", text="t"))
    blob = render.resource_contents(ResourceBody(uri="a://b", mime_type="x/y", blob="AA=="))
    assert (text.text, blob.blob) == ("t", "AA==")


def test_resources_of_others_are_marked():
    """In _meta, with text and with base64."""
    for body in (ResourceBody(uri="a:b", text="t"), ResourceBody(uri="a:b", blob="YQ==")):
        assert render.resource_contents(body).meta is None
        marked = render.resource_contents(body, untrusted=True)
        assert marked.meta == {"dev.searchbus/untrusted": True}


def test_prompts_resources_and_templates_keep_their_fields():
    """As their lists show them."""
    prompt = PromptDescriptor(
        name="p", toolset="t", description="d",
        arguments=(PromptArgument(name="a", required=True),),
        messages=(PromptMessage(role="user", content=TextContent(text="x")),),
    )  # fmt: skip
    shown = render.prompt("t_p", prompt)
    assert (shown.name, shown.arguments[0].name, shown.arguments[0].required) == ("t_p", "a", True)
    resource = ResourceDescriptor(uri="a://b", name="b", toolset="t", size_bytes=5)
    assert render.resource(resource).size == 5
    template = ResourceTemplate(uri_template="a://{b}", name="b", toolset="t")
    assert render.template(template).uri_template == "a://{b}"
