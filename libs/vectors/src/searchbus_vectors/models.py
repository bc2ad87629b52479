"""The embedding models that a collection may be made with, and what is known of each.

model_of("BAAI/bge-small-en-v1.5")            # the default
model_of("intfloat/multilingual-e5-small")    # many languages, weights from an extra package
model_of("thenlper/gte-base")                 # any other model of fastembed
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .model_files import CARRIED, MINILM, MODEL_NAME, ModelNotFound, resolve_model
from .vectors import DIMENSIONS

__all__ = ["MULTILINGUAL", "MULTILINGUAL_MODEL", "Model", "model_of", "resolve_folder"]

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
        sure: a cosine from which on a passage matches; None where nobody measured it.
        steepness: how much its cosines change where the default model's change by 1.
    """

    name: str
    dimensions: int
    query_prefix: str = ""
    passage_prefix: str = ""
    weights: str = "model.onnx"
    sure: float | None = None
    steepness: float = 1.0

    def comparable(self, cosine: float) -> float:
        """A cosine of this model on the scale of the default model.

        The least cosine of a match is compared with fixed values, and hits of several collections
        with each other. The unrelated texts of multilingual-e5 have cosines of .74, bge's of .4.
        """
        if self.sure is None:
            return cosine
        return min(1.0, _SURE_COSINE + (cosine - self.sure) / self.steepness)


_SURE_COSINE = 0.62
_DEFAULT_MODEL = Model(MODEL_NAME, DIMENSIONS, _BGE_QUERY)
_MINILM_MODEL = Model(MINILM, 384)
# Of 100 questions in ten languages on twenty texts (tests/bench/languages.py), the right text has
# this cosine for 93, the best wrong one for 13; unrelated texts have .74 on average.
MULTILINGUAL_MODEL = Model(MULTILINGUAL, 384, "query: ", "passage: ", sure=0.795, steepness=0.36)


@cache
def model_of(name: str) -> Model:
    """What is known of a model.

    Raises:
        ModelNotFound: fastembed does not know the name.
    """
    for model in (_DEFAULT_MODEL, _MINILM_MODEL, MULTILINGUAL_MODEL):
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
    raise ModelNotFound(
        f"There is no embedding model {name!r}. The names are fastembed's, and {MULTILINGUAL}."
    )


def resolve_folder(model: Model, folder: Path | None, *, allow_download: bool) -> Path | None:
    """The folder of a model; None where fastembed shall download it. See also `resolve_model`.

    Raises:
        ModelNotFound: with what to do.
    """
    if model.name in CARRIED:
        return resolve_model(folder, name=model.name, allow_download=allow_download)
    if folder is None and not allow_download:
        raise ModelNotFound(
            f"The model {model.name} is not on this machine. Set SEARCHBUS_MODEL_FOLDERS to "
            f'{{"{model.name}": "<its folder>"}}, or SEARCHBUS_MODEL_DOWNLOAD=true to fetch it.'
        )
    if folder is not None and not (folder / model.weights).is_file():
        raise ModelNotFound(f"The folder {folder} of {model.name} lacks {model.weights}.")
    return folder
