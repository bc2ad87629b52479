"""Settings of the tool index (environment prefix SEARCHBUS_)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from searchbus_runtime import FollowingSettings, data_folder
from searchbus_vectors import EmbedderKind


class ToolindexSettings(FollowingSettings):
    """What the tool index reads."""

    embedder: EmbedderKind = "model"
    """`hash`: hashed words instead of the model, for tests and trials."""
    second_model: bool = True
    """Rank by all-MiniLM-L6-v2 as well: more is found, for 165 MB of memory."""
    model_dir: Path | None = None
    """Folder of the embedding model, with the second one in all-MiniLM-L6-v2 inside."""
    model_download: bool = False
    """May fetch the model from the hub."""
    embed_threads: Annotated[int, Field(ge=1, le=256)] | None = None
    """Threads that embed descriptors. Default: all cores."""
    query_threads: Annotated[int, Field(ge=1, le=256)] = 2
    """Queries embedded at the same time."""

    def vector_file(self, dimensions: int) -> Path:
        """Where vectors of so many numbers are kept for the next start."""
        folder = (self.data_dir or data_folder()) / "toolindex"
        return folder / f"vectors-{dimensions}.bin"
