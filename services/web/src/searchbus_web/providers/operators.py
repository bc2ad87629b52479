"""Domain filters as search operators, for providers without a parameter for them."""

from __future__ import annotations

from .base import Query

__all__ = ["with_domains"]

_MAX_DOMAINS = 8
"""More would not fit into a query; the results are filtered afterwards as well."""


def with_domains(query: Query) -> str:
    """The query with operators: `cats (site:a.org OR site:b.org) -site:c.org`."""
    text = query.text
    included = [f"site:{domain}" for domain in query.include_domains[:_MAX_DOMAINS]]
    if len(included) == 1:
        text += f" {included[0]}"
    elif included:
        text += f" ({' OR '.join(included)})"
    # Of an operator with a path, engines exclude the whole host.
    excluded = [domain for domain in query.exclude_domains if "/" not in domain]
    for domain in excluded[:_MAX_DOMAINS]:
        text += f" -site:{domain}"
    return text
