"""The embedding model under fastembed: texts in, unit vectors out.

    model = shared_model(resolve_model(), MODEL_NAME)
    rows = model.embed(["one text", "another"])

A process may load it and then fork, since it runs in the calling thread alone: threads do not
survive a fork. The processes share the memory of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fastembed import TextEmbedding
from numpy.typing import NDArray

from .model_files import MODEL_NAME, ModelNotFound

__all__ = ["MAX_TOKENS", "DenseModel", "shared_model"]

MAX_TOKENS = 512
"""The rest of a longer text does not count."""
_MARKS = 2
"""Tokens that the models put around every text."""


class DenseModel:
    """Computes in the calling thread; may be used by several threads at once.

    Args:
        folder: with the model's files, see `resolve_model`; None lets fastembed download them.
        name: of a model that fastembed knows.

    Raises:
        ModelNotFound: the folder does not hold the model, or it cannot be downloaded.
    """

    def __init__(self, folder: Path | None, name: str = MODEL_NAME) -> None:
        options: dict[str, Any] = {"threads": 1}
        if folder is not None:
            options["specific_model_path"] = str(folder)
        try:
            self._model = TextEmbedding(name, **options)
        except (ValueError, OSError) as error:
            where = f"in {folder}" if folder is not None else "from the hub"
            raise ModelNotFound(f"The model {name} cannot be loaded {where}: {error}") from error

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length for each text; all texts are one batch of the model."""
        rows = self._model.embed(list(texts), batch_size=max(1, len(texts)))
        return np.array(list(rows), dtype=np.float32)

    def is_word(self, word: str) -> bool:
        """Whether the word is one token; a misspelt or a rare one is several. Takes some 50 µs."""
        return int(self._model.token_count(word)) == 1 + _MARKS


@cache
def shared_model(folder: Path | None, name: str) -> DenseModel:
    """The model of a folder, loaded once in this process or in one that it was forked from."""
    return DenseModel(folder, name)
