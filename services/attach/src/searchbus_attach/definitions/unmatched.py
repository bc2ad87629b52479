"""Patterns of a view that match no tool: a `deny` with a wrong name hides nothing."""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase

from searchbus_runtime.wording import nearest

from ..declare.views import Selection, View
from .names import qualified_name

__all__ = ["unmatched"]

_WILDCARD = re.compile(r"[*?\[]")


def unmatched(
    view: View | Selection,
    tools: Collection[str],
    *,
    servers: Collection[str] = (),
    unknown: Collection[str] = (),
) -> tuple[str, ...]:
    """A sentence for each pattern that matches none of the tools.

    Args:
        servers: of tools that are named as on `/mcp`; one may be the nearest name.
        unknown: those of them whose lists are not known: what may match their tools is left out.
    """
    known = [*tools, *(qualified_name(server, "*") for server in servers)]
    beginnings = [qualified_name(server, "") for server in unknown]
    return tuple(
        f"{pattern!r} of '{key}' matches no tool.{nearest(pattern, known)}"
        for key, patterns in (("allow", view.allow), ("deny", view.deny))
        for pattern in patterns
        if not any(fnmatchcase(tool, pattern) for tool in tools)
        and not any(_may_match(pattern, beginning) for beginning in beginnings)
    )


def _may_match(pattern: str, beginning: str) -> bool:
    """Whether a pattern may match a name that begins so."""
    fixed = _WILDCARD.split(pattern, maxsplit=1)[0]
    return beginning.startswith(fixed) or fixed.startswith(beginning)
