"""Prompts are filled in and completed from their descriptor."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from searchbus_contracts import PromptArgument, PromptDescriptor, PromptMessage, TextContent
from searchbus_edge.lists.prompts import MAX_ARGUMENT_CHARS, complete, fill

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
