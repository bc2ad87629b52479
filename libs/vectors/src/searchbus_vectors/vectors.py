"""Vectors as services and stores exchange them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DIMENSIONS", "QueryVectors", "Sparse", "Vector", "Vectors"]

DIMENSIONS = 384
"""Length of the default model's dense vectors; a model of a collection may have another."""

Vector = NDArray[np.float32]
"""A dense vector of float32 values and unit length."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: term ids and their weights, lists of equal length."""

    indices: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of a stored passage: floats of unit length, and BM25 weights."""

    dense: list[float]
    sparse: Sparse


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """The vectors of a query. `sparse` is empty for a query of stopwords alone."""

    dense: list[float]
    sparse: Sparse
