"""Shares a budget of tokens between the texts of one answer.

    layout = Layout(texts, 2000, render)      # some of the last texts may not fit at all
    spans = layout.fill(scores)               # a part of each of the first `layout.kept` texts

The budget holds for the JSON of the whole answer. Short texts stay whole; of a longer one the run
of sentences with the highest scores is taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from .budget import BudgetTooSmall, excerpt, share
from .sentences import Span, sentences
from .tokens import Ruler, count

__all__ = ["Layout"]

_LEAST_TEXT = 40
"""Tokens; with less a text says nothing."""


class Layout:
    """Decides how many texts fit, and how much of each.

    Args:
        render: the answer as JSON, with these parts of the first texts.

    Raises:
        BudgetTooSmall: not even the first text fits, cut to a few words.
    """

    def __init__(
        self, texts: Sequence[str], most: int, render: Callable[[Sequence[Span]], bytes]
    ) -> None:
        self._most, self._render = most, render
        rulers = [Ruler(text) for text in texts]
        wanted = [ruler.between(0, len(text)) for ruler, text in zip(rulers, texts, strict=True)]

        def least(kept: int) -> int:
            return self._frame(kept) + sum(min(_LEAST_TEXT, tokens) for tokens in wanted[:kept])

        self.kept = bisect_right(range(1, len(texts) + 1), most, key=least)
        if self.kept == 0:
            raise BudgetTooSmall(least(min(1, len(texts))))
        self._texts = texts[: self.kept]
        self._rulers, self._wanted = rulers[: self.kept], wanted[: self.kept]

    @property
    def sentences(self) -> list[list[str]]:
        """Of each text that is kept and has to be cut; of one that stays whole there are none."""
        shares = share(self._wanted, self._most - self._frame(self.kept))
        return [
            [text[s.start : s.end] for s in sentences(text)] if wanted > tokens else []
            for text, wanted, tokens in zip(self._texts, self._wanted, shares, strict=True)
        ]

    def fill(self, scores: Sequence[Sequence[float]]) -> list[Span]:
        """The part of each text.

        Args:
            scores: 0 or more, for `sentences`.
        """
        left = self._most - self._frame(self.kept)
        while True:
            shares = share(self._wanted, left)
            spans = [
                _part(text, ruler, tokens, own)
                for text, ruler, tokens, own in zip(
                    self._texts, self._rulers, shares, scores, strict=True
                )
            ]
            excess = count(self._render(spans).decode()) - self._most
            if excess <= 0:
                return spans
            left -= excess

    def _frame(self, kept: int) -> int:
        return count(self._render([Span(0, 0)] * kept).decode())


def _part(text: str, ruler: Ruler, tokens: int, scores: Sequence[float]) -> Span:
    if ruler.between(0, len(text)) <= tokens:
        return Span(0, len(text))
    # Without scores it was to stay whole: then a little less of it is its beginning.
    return excerpt(text, ruler, tokens, (lambda _: scores) if scores else None) or Span(0, 0)
