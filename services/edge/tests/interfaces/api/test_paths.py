"""The address that is shown of each tool."""

from __future__ import annotations

import pytest

from searchbus_edge.interfaces.api.paths import path_of


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "/api/v1/tools/say"),
        ({"listed_as": "office_say"}, "/api/v1/office/say"),
        ({"listed_as": "x__say", "qualified_name": "x__say"}, "/api/v1/tools/x__say"),
        ({"listed_as": "tools_say", "toolset": "tools"}, "/api/v1/tools/tools_say"),
    ],
)
def test_tool_is_shown_under_its_toolset_where_its_name_is_taken(make_tool, options, path):
    """A toolset `tools` has no address of its own."""
    assert path_of(make_tool("say", **options)) == path
