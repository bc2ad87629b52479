"""Keeps a result within a number of tokens: shares for its texts, parts of whole sentences.

layout = Layout(texts, 2000, render)      # some of the last texts may not fit at all
spans = layout.fill(scores)               # a part of each of the first `layout.kept` texts
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from .sentences import Span, sentences, whole_letter
from .tokens import MAX_CHARS_PER_TOKEN, Ruler, count

DEFAULT_TOKENS = 25_000
Relevance = Callable[[Sequence[str]], Sequence[float]]
"""Scores sentences: 0 or more each, more is better."""


class BudgetTooSmallError(ValueError):
    """An answer does not fit, even without any text.

    Attributes:
        least: tokens of that answer.
    """

    def __init__(self, least: int) -> None:
        super().__init__(f"the answer has {least} tokens without its text")
        self.least = least


def holds(encoded: bytes, most: int) -> bool:
    """Whether an answer, encoded as JSON, has at most so many tokens."""
    return len(encoded) <= most or count(encoded.decode()) <= most


def fit_beginning(text: str, most: int, render: Callable[[int], bytes]) -> int:
    """The length of the longest beginning of a text, of whole sentences, that an answer can have.

    Args:
        render: the answer as JSON with so many characters of the text.

    Raises:
        BudgetTooSmallError
    """
    if holds(render(len(text)), most):
        return len(text)
    frame = count(render(0).decode())
    left = most - frame
    while left > 0:
        length = beginning(text, left)
        excess = count(render(length).decode()) - most
        if excess <= 0:
            return length
        left -= excess
    raise BudgetTooSmallError(frame)


def fit_count(total: int, most: int, render: Callable[[int], bytes]) -> int:
    """How many of `total` results an answer can have; 0 also where it does not fit without any.

    Args:
        render: the answer as JSON with so many results, the first ones.
    """
    if holds(render(total), most):
        return total
    return bisect_left(range(1, total), True, key=lambda kept: not holds(render(kept), most))


def share(wanted: Sequence[int], most: int) -> list[int]:
    """Tokens for each text: all that a short one wants, and equal parts of the rest for the others.

    The sum is at most `most`.
    """
    given = [0] * len(wanted)
    left = max(0, most)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for position, index in enumerate(order):
        given[index] = min(wanted[index], left // (len(order) - position))
        left -= given[index]
    return given


def excerpt(text: str, ruler: Ruler, limit: int, relevance: Relevance | None = None) -> Span | None:
    """The best part of a text with at most `limit` tokens: sentences that follow each other.

    Without `relevance` it is the first part. Where not even one sentence fits, it is the beginning
    of the best one, cut between words; None where nothing fits.

    Args:
        ruler: of the text.
    """
    spans = list(sentences(text))
    if not spans:
        return None
    if ruler.between(spans[0].start, spans[-1].end) <= limit:
        return Span(spans[0].start, spans[-1].end)
    if relevance is None:
        scores: Sequence[float] = [0.0] * len(spans)
        chosen = _longest_first(spans, ruler, limit)
    else:
        scores = relevance([text[span.start : span.end] for span in spans])
        chosen = _best_run(spans, scores, ruler, limit)
    if chosen is not None:
        return chosen
    best = max(range(len(spans)), key=lambda index: scores[index])
    return _beginning(text, spans[best], ruler, limit)


def _longest_first(spans: Sequence[Span], ruler: Ruler, limit: int) -> Span | None:
    end = ruler.reach(spans[0].start, limit)
    last = bisect_right(spans, end, key=lambda span: span.end) - 1
    return Span(spans[0].start, spans[last].end) if last >= 0 else None


def beginning(text: str, limit: int) -> int:
    """The end of the longest beginning of a text, of whole sentences, with at most `limit` tokens.

    It is cut between words where no sentence fits; 0 where nothing does.
    """
    text = text[: MAX_CHARS_PER_TOKEN * (limit + 1)]
    ruler = Ruler(text)
    if ruler.between(0, len(text)) <= limit:
        return len(text)
    first = len(text) - len(text.lstrip())
    found = excerpt(text, ruler, limit - ruler.between(0, first))
    return 0 if found is None else found.end


def _best_run(
    spans: Sequence[Span], scores: Sequence[float], ruler: Ruler, limit: int
) -> Span | None:
    """The run with the highest sum of scores; of equal ones the first, as long as it can be."""
    best: tuple[float, int, int] | None = None
    first, total = 0, 0.0
    for last, span in enumerate(spans):
        total += scores[last]
        while first <= last and ruler.between(spans[first].start, span.end) > limit:
            total -= scores[first]
            first += 1
        if first > last:
            total = 0.0
        elif best is None or total > best[0] + 1e-9 or (first == best[1] and total >= best[0]):
            best = (total, first, last)
    return None if best is None else Span(spans[best[1]].start, spans[best[2]].end)


def _beginning(text: str, span: Span, ruler: Ruler, limit: int) -> Span | None:
    end = min(span.end, ruler.reach(span.start, limit))
    space = max(text.rfind(mark, span.start, end) for mark in " \n")
    if end < span.end and not text[end].isspace() and space > span.start:
        end = space
    end = whole_letter(text, span.start, end)
    while end > span.start and text[end - 1].isspace():
        end -= 1
    return Span(span.start, end) if end > span.start else None


_LEAST_TEXT = 40
"""Tokens; with less a text says nothing."""


class Layout:
    """Decides how many texts fit, and how much of each.

    Args:
        render: the answer as JSON, with these parts of the first texts.

    Raises:
        BudgetTooSmallError: not even the first text fits, cut to a few words.
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
            raise BudgetTooSmallError(least(min(1, len(texts))))
        self._texts = texts[: self.kept]
        self._rulers, self._wanted = rulers[: self.kept], wanted[: self.kept]

    @property
    def sentences(self) -> list[list[str]]:
        """The sentences of each text that is kept; none where it stays whole."""
        shares = share(self._wanted, self._most - self._frame(self.kept))
        return [
            [text[s.start : s.end] for s in sentences(text)] if wanted > tokens else []
            for text, wanted, tokens in zip(self._texts, self._wanted, shares, strict=True)
        ]

    def fill(self, scores: Sequence[Sequence[float]]) -> list[Span]:
        """The part of each text, by scores (0 or more) of `sentences`."""
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
