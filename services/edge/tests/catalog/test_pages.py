"""Pages of tools, prompts and templates."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError

from searchbus_contracts import Actor, ResourceTemplate
from searchbus_edge.auth.signing import UNKNOWN_CURSOR, Cursors
from searchbus_edge.catalog.render import Pages
from searchbus_edge.catalog.view import View


@pytest.fixture
def pages():
    return Pages(Cursors(b"k" * 32), page_size=2)


@pytest.fixture
def view(make_tool):
    tools = {name: make_tool(name) for name in "abcde"}
    tools["c"] = make_tool("c", required_roles=("NOBODY",))
    return View((0, True), "office", tools=tools)


def test_pages_hold_each_visible_tool_once(pages, view, reader):
    """The last one has no cursor."""
    first = pages.tools(reader, view, None)
    second = pages.tools(reader, view, first.next_cursor)
    assert [[tool.name for tool in page.tools] for page in (first, second)] == [
        ["a", "b"],
        ["d", "e"],
    ]
    assert second.next_cursor is None


def test_a_template_for_reading_only_is_not_listed(pages, reader):
    """Its resources can be read by address."""
    listed = ResourceTemplate(uri_template="a://{x}", name="a", toolset="office")
    hidden = ResourceTemplate(uri_template="b://{+x}", name="b", toolset="office", listed=False)
    view = View((0, True), "office", templates=((None, hidden), (None, listed)))
    found = pages.templates(reader, view, None).resource_templates
    assert [template.uri_template for template in found] == ["a://{x}"]


def test_cursor_belongs_to_its_list_and_toolset(pages, view, reader):
    """The error says what to do."""
    cursor = pages.tools(reader, view, None).next_cursor
    other = View((0, True), "other", tools=view.tools)
    for call in (
        lambda: pages.prompts(reader, view, cursor),
        lambda: pages.templates(reader, view, cursor),
        lambda: pages.tools(reader, other, cursor),
        lambda: pages.tools(reader, view, ""),
    ):
        with pytest.raises(MCPError) as caught:
            call()
        assert (caught.value.error.code, caught.value.error.message) == (-32602, UNKNOWN_CURSOR)


def test_shorter_list_ends(pages, view, reader):
    """Where tools vanished in between."""
    cursor = pages.tools(Actor(subject="a", roles=("*",)), view, None).next_cursor
    page = pages.tools(reader, View((1, True), "office"), cursor)
    assert (page.tools, page.next_cursor) == ([], None)


async def test_prompts_and_templates_are_listed(pages, registry, reader):
    """Under their listed names."""
    view = registry.view(None)
    assert [p.name for p in pages.prompts(reader, view, None).prompts] == ["define"]
    (template,) = pages.templates(reader, view, None).resource_templates
    assert template.uri_template == "dict://word/{word}"
