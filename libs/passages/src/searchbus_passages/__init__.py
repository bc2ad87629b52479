"""Parts of texts: sentences, budgets of tokens, where a quotation stands."""

from .bm25 import bm25
from .budget import (
    DEFAULT_TOKENS,
    BudgetTooSmallError,
    Layout,
    beginning,
    excerpt,
    fit_beginning,
    fit_count,
    holds,
    share,
)
from .quotes import MAX_QUOTE_CHARS, Comparisons, Difference, Place, find_quote
from .sentences import Span, contexts, sentences
from .terms import terms
from .tokens import MAX_CHARS_PER_TOKEN, Ruler, count, model_tokens

__all__ = [
    "DEFAULT_TOKENS", "MAX_CHARS_PER_TOKEN", "MAX_QUOTE_CHARS", "BudgetTooSmallError",
    "Comparisons", "Difference", "Layout", "Place", "Ruler", "Span", "beginning", "bm25",
    "contexts", "count", "excerpt", "find_quote", "fit_beginning", "fit_count", "holds",
    "model_tokens", "sentences", "share", "terms",
]  # fmt: skip
