"""Checks of arguments that several tools have: queries, budgets of tokens."""

from __future__ import annotations

from .errors import ErrorCode, Fault

__all__ = ["MAX_TOKENS", "MIN_TOKENS", "check_query", "too_small"]

MIN_TOKENS = 100
MAX_TOKENS = 1_000_000
"""Bounds of what a caller may name as `max_tokens` of an answer."""


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
            f"{field} has {len(query)} characters. Shorten it to at most {max_chars}.",
        )
    return query


def too_small(max_tokens: int, least: int) -> Fault:
    """The failure for a budget that an answer exceeds without any text.

    Args:
        least: tokens of that answer.
    """
    return Fault(
        ErrorCode.INVALID_ARGUMENT,
        f"max_tokens is {max_tokens}, but the answer takes {least} almost without text. Raise it.",
    )
