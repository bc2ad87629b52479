"""The one check of search queries."""

from __future__ import annotations

from .errors import ErrorCode, Fault

__all__ = ["check_query"]


def check_query(text: str, *, max_chars: int, field: str = "query") -> str:
    """Return the query with every run of white space replaced by one space.

    Args:
        max_chars: the longest query allowed, counted after that replacement.
        field: the argument's name, for the error message.

    Raises:
        Fault: invalid_query where the query is empty or too long.
    """
    query = " ".join(text.split())
    if not query:
        raise Fault(ErrorCode.INVALID_QUERY, f"{field} is empty. Say what to search for.")
    if len(query) > max_chars:
        raise Fault(
            ErrorCode.INVALID_QUERY,
            f"{field} has {len(query)} characters; at most {max_chars} are allowed.",
        )
    return query
