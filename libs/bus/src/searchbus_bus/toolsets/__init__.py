"""How a service declares what it offers: typed methods of a class (see declare.py)."""

from .declare import (
    DeclarationError,
    Toolset,
    endpoint,
    prompt,
    resource,
    resource_list,
    resource_search,
    resource_template,
    tool,
)
from .describe import declared_tools
from .forms import WithMeta

__all__ = [
    "DeclarationError",
    "Toolset",
    "WithMeta",
    "declared_tools",
    "endpoint",
    "prompt",
    "resource",
    "resource_list",
    "resource_search",
    "resource_template",
    "tool",
]
