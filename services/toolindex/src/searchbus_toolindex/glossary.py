"""English for words of other languages, since the model and the descriptions are English.

The table (glossary.tsv) has the words with which people name the work of tools, in some fifteen
languages. Its first lines describe its format.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from .words import fold, is_unspaced

__all__ = ["Glossary", "load_glossary"]


class Glossary:
    """Finds words in the table: whole, by their start (`wetter*`), or inside unspaced text."""

    def __init__(self, table: str) -> None:
        self._whole: dict[str, str] = {}
        self._stems: dict[str, str] = {}
        self._unspaced: dict[str, str] = {}
        for line in table.splitlines():
            if line.startswith("#") or "\t" not in line:
                continue
            english, _, words = line.partition("\t")
            for word in words.split():
                plain = fold(word.rstrip("*"))
                if is_unspaced(word):
                    self._unspaced.setdefault(word.rstrip("*"), english)
                elif word.endswith("*"):
                    self._stems.setdefault(plain, english)
                else:
                    self._whole.setdefault(plain, english)
        self._longest_unspaced = max(map(len, self._unspaced), default=0)

    def translate(self, word: str) -> list[str]:
        """English for a word, or for each known word of an unspaced text; empty if unknown."""
        if is_unspaced(word):
            return self._inside(word)
        plain = fold(word)
        if plain in self._whole:
            return [self._whole[plain]]
        for end in range(len(plain), 2, -1):
            if plain[:end] in self._stems:
                return [self._stems[plain[:end]]]
        return []

    def _inside(self, text: str) -> list[str]:
        found, at = [], 0
        while at < len(text):
            for length in range(min(self._longest_unspaced, len(text) - at), 0, -1):
                english = self._unspaced.get(text[at : at + length])
                if english is not None:
                    found.append(english)
                    at += length
                    break
            else:
                at += 1
        return found


@cache
def load_glossary() -> Glossary:
    """The glossary of this package."""
    return Glossary(files(__package__).joinpath("glossary.tsv").read_text(encoding="utf-8"))
