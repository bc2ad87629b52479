"""Views of tools (extension `io.modelcontextprotocol/ui`, MCP Apps of 2026-01-26).

The views of attached servers are resources like any other. Ours is in no list: the tool `search`
names it to clients that declare the extension with their request, so that the lists of all others
stay as they are.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import mcp_types as types

from ..catalog.render import RESULTS_VIEW

MIME_TYPE = "text/html;profile=mcp-app"


@cache
def _html() -> str:
    return files(__package__).joinpath("search_results.html").read_text()


def read_view(uri: str) -> types.ReadResourceResult | None:
    """The view of search results; None of any other URI. It may reach no address."""
    if uri != RESULTS_VIEW:
        return None
    contents = types.TextResourceContents(
        uri=uri, mime_type=MIME_TYPE, text=_html(), _meta={"ui": {"prefersBorder": True}}
    )
    return types.ReadResourceResult(contents=[contents])
