"""The address of each tool.

| path | tools |
| --- | --- |
| `/api/v1/tools/<name>` | all, under their names on `/mcp` |
| `/api/v1/<toolset>/<name>` | those of one toolset, under their own names, as on `/mcp/<toolset>` |

Both serve every tool. `path_of` is the one to show: the second where the own name belongs to
another toolset on `/mcp`.
"""

from __future__ import annotations

from ...catalog.view import ListedTool

__all__ = ["ALL_TOOLS", "ROOT", "path_of"]

ROOT = "/api/v1"
ALL_TOOLS = "tools"


def path_of(listed: ListedTool) -> str:
    """The address of a tool of the view of `/mcp`."""
    tool = listed.descriptor
    if listed.name == (tool.qualified_name or tool.name) or tool.toolset == ALL_TOOLS:
        return f"{ROOT}/{ALL_TOOLS}/{listed.name}"
    return f"{ROOT}/{tool.toolset}/{tool.name}"
