"""Catalogues: equal content has an equal hash, and one malformed descriptor stays alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from searchbus_contracts import (
    Catalog,
    PromptArgument,
    PromptDescriptor,
    PromptMessage,
    ResourceDescriptor,
    ResourceTemplate,
    TextContent,
    ToolDescriptor,
)

TOOL = ToolDescriptor(
    name="lookup", toolset="dictionary", description="d", input_schema={"type": "object"}
)
PROMPT = PromptDescriptor(
    name="explain",
    toolset="prompts",
    messages=(PromptMessage(role="user", content=TextContent(text="Explain {word}.")),),
    arguments=(PromptArgument(name="word", required=True),),
)
CATALOG = Catalog(
    service="words",
    tools=(TOOL,),
    prompts=(PROMPT,),
    resources=(ResourceDescriptor(uri="dictionary://about", name="about", toolset="dictionary"),),
    resource_templates=(
        ResourceTemplate(uri_template="letters://{letter}", name="letter", toolset="letters"),
    ),
)


def test_digest_is_32_hex_digits_over_the_content():
    """Equal catalogues have equal digests, whatever the order of a schema's keys."""
    properties = {"a": {"type": "string"}, "b": {"type": "string"}}
    swapped = dict(reversed(properties.items()))
    one = replace(TOOL, input_schema={"type": "object", "properties": properties})
    two = replace(TOOL, input_schema={"properties": swapped, "type": "object"})
    digest = Catalog(service="words", tools=(one,)).digest
    assert digest == Catalog(service="words", tools=(two,)).digest
    assert len(digest) == 32
    assert set(digest) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    "changed",
    [
        replace(CATALOG, service="other"),
        replace(CATALOG, tools=(replace(TOOL, description="e"),)),
        replace(CATALOG, prompts=()),
        replace(CATALOG, resources=()),
        replace(CATALOG, resource_templates=()),
    ],
)
def test_every_part_of_a_catalogue_counts_in_its_digest(changed):
    """A change of any part gives another digest."""
    assert changed.digest != CATALOG.digest


def test_toolsets_are_those_of_all_descriptors():
    """Tools, prompts, resources and templates name them; each appears once, sorted."""
    assert CATALOG.toolsets == ("dictionary", "letters", "prompts")
    assert Catalog(service="words").toolsets == ()


@pytest.mark.parametrize("bad", ["a b", "a.b", "", "x" * 65, "a\n"])
def test_prompt_names_are_subject_tokens(bad):
    """The name, the toolset and the arguments' names."""
    for change in ({"name": bad}, {"toolset": bad}, {"arguments": (PromptArgument(name=bad),)}):
        with pytest.raises(ValueError, match="subject token"):
            replace(PROMPT, **change)
