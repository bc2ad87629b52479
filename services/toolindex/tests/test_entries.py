"""What is indexed of each kind of descriptor."""

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
)
from searchbus_toolindex.entries import descriptors_of, entry_of, phrase, tool_text

from .conftest import entries, tool

SCHEMA = {
    "type": "object",
    "properties": {"cityName": {"description": "Where."}, "days": {"type": "integer"}, "odd": True},
}


def test_text_of_a_tool_has_its_name_in_words_and_its_parameters():
    """A title that only repeats the name is left out."""
    text = tool_text("weather", "getForecast", None, "Get the weather.", SCHEMA)
    assert text == (
        "weather get Forecast. Get the weather. Inputs: city Name: Where.; days: ; odd: "
    )
    assert "Forecasts." in tool_text("weather", "getForecast", "Forecasts", "", {})
    assert tool_text("w", "get_forecast", "Get forecast", "", {}) == "w get forecast. "


def test_every_kind_of_descriptor_is_an_entry():
    """Resources and templates are named by their URI."""
    message = PromptMessage(role="user", content=TextContent(text="hi"))
    catalog = Catalog(
        service="s",
        tools=(tool("send", "Send mail.", toolset="t"),),
        prompts=(
            PromptDescriptor(
                name="brief", toolset="t", messages=(message,),
                arguments=(PromptArgument(name="topic", description="What about."),),
            ),
        ),
        resources=(ResourceDescriptor(uri="x://a", name="a", toolset="t"),),
        resource_templates=(ResourceTemplate(uri_template="x://{id}", name="b", toolset="t"),),
    )  # fmt: skip
    found = list(map(entry_of, descriptors_of(catalog)))
    assert [(e.kind, e.name) for e in found] == [
        ("tool", "send"), ("prompt", "brief"), ("resource", "x://a"), ("resource", "x://{id}")
    ]  # fmt: skip
    assert "topic: What about." in found[1].text
    assert "x://a" in found[2].names


def test_digest_changes_with_whatever_is_indexed():
    """So an unchanged entry is not embedded again, and a changed one is."""
    one, same, roles, text = (
        entry_of(t)
        for t in (
            tool("a", "Send mail."),
            tool("a", "Send mail."),
            tool("a", "Send mail.", required_roles=("R",)),
            tool("a", "Send mails."),
        )
    )
    assert one.digest == same.digest
    assert len({one.digest, roles.digest, text.digest}) == 3


def test_long_descriptor_is_shortened():
    """A description of a megabyte costs no more than one of 4,000 characters."""
    assert len(tool_text("s", "n", None, "x" * 1_000_000, {})) == 4000


def test_phrase_is_lower_case_words_between_spaces():
    """So that `in` finds whole words only."""
    assert phrase("getStockPrice, now!") == " get stock price now "


@pytest.mark.parametrize(
    ("description", "summary"),
    [
        ("Send mail.", "office send. Send mail."),
        ("Send v1.2 mail. To many.", "office send. Send v1.2 mail."),
        ("Send mail\nArgs: to", "office send. Send mail"),
        ("", "office send."),
    ],
)
def test_summary_is_the_heading_and_the_first_sentence(description, summary):
    """Without the inputs; of one sentence the text itself, which is embedded once."""
    schema = {"type": "object", "properties": {"to": {}}}
    (entry,) = entries(replace(tool("send", description), input_schema=schema))
    assert entry.summary == summary
    assert entry.embedded == (entry.text, summary)
    (plain,) = entries(tool("send", "Send mail."))
    assert plain.summary == plain.text
