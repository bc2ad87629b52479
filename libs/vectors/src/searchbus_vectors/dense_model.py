"""bge-small-en-v1.5 as an ONNX session and its tokenizer: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from tokenizers import Tokenizer

from .model_files import TOKENIZER, WEIGHTS

__all__ = ["MAX_TOKENS", "DenseModel"]

MAX_TOKENS = 512
"""The rest of a longer text does not count."""


class DenseModel:
    """Computes in the calling thread; may be used by several threads at once.

    Args:
        folder: with the files that `resolve_model` names.
    """

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")  # noqa: S106  (a token's name)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(
            str(folder / WEIGHTS), options, providers=["CPUExecutionProvider"]
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length for each text; all texts are one batch of the model."""
        encoded = self._tokenizer.encode_batch(list(texts))
        ids = np.array([e.ids for e in encoded], dtype=np.int64)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.array([e.attention_mask for e in encoded], dtype=np.int64),
            "token_type_ids": np.zeros_like(ids),
        }
        # The vector of the first token stands for the whole text.
        first: NDArray[np.float32] = self._session.run(None, inputs)[0][:, 0]
        lengths = np.linalg.norm(first, axis=1, keepdims=True)
        rows: NDArray[np.float32] = first / np.maximum(lengths, np.float32(1e-12))
        return rows
