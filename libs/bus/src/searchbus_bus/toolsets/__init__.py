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
from .forms import WithMeta

__all__ = [
    "DeclarationError",
    "Toolset",
    "WithMeta",
    "endpoint",
    "prompt",
    "resource",
    "resource_list",
    "resource_search",
    "resource_template",
    "tool",
]
