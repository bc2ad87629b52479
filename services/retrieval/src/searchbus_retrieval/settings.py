"""Settings of the retrieval service (environment prefix SEARCHBUS_)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from searchbus_bus import TlsFiles
from searchbus_bus.client.request import received_deadline
from searchbus_runtime import ServiceSettings, data_folder
from searchbus_vectors import EmbedderKind, Layout, ModelNotFoundError, StoreOptions, model_of

from .question.profiles import load_profiles


class RetrievalSettings(ServiceSettings):
    """What the retrieval service reads."""

    qdrant_url: str | None = None
    """A Qdrant server; unset: the embedded engine."""
    qdrant_api_key: SecretStr | None = None
    """Key of the Qdrant server."""
    qdrant_ca_file: Path | None = None
    """Certificate authority of a Qdrant server whose URL is https://."""
    qdrant_cert_file: Path | None = None
    """Certificate of this client, where Qdrant demands one."""
    qdrant_key_file: Path | None = None
    """Its key."""
    qdrant_grpc_port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """Port of the Qdrant server's gRPC; unset: requests go by HTTP."""
    collection_layouts: dict[str, Layout] = Field({})
    """How a Qdrant server keeps a new collection, JSON: {"wiki": {"expected_passages": 2000000,
    "replicas": 3}}; "*": every collection that is not named."""
    embedder: EmbedderKind = "model"
    """`hash`: hashed words instead of the model, for tests and trials."""
    model_dir: Path | None = None
    """Folder of the embedding model."""
    model_download: bool = False
    """May fetch the model from the hub."""
    collection_roles: dict[str, tuple[str, ...]] = Field({})
    """Roles that readers of a collection must hold, JSON: {"hr": ["HR"]}; "*": of every collection
    that is not named."""
    collection_models: dict[str, str] = Field({})
    """Embedding model of a new collection, JSON: {"wiki": "intfloat/multilingual-e5-small"}; "*":
    of every collection that is not named. A collection keeps the model that it was made with."""
    model_folders: dict[str, Path] = Field({})
    """Folders of other models than the default one: {"<model>": "<folder>"}."""
    min_free_mib: Annotated[int, Field(ge=0, le=1_048_576)] = 64
    """No documents are stored while the disk of the embedded engine has fewer MiB free: they are
    refused with `storage_full`."""
    profile_dir: Path | None = None
    """Folder of profiles, `<collection>.toml`: what questions to a collection mean."""
    embed_threads: Annotated[int, Field(ge=1, le=256)] | None = None
    """Threads that embed documents; queries have their own. Default: all cores."""

    @field_validator("collection_models")
    @classmethod
    def _models_are_known(cls, chosen: dict[str, str]) -> dict[str, str]:
        for name in chosen.values():
            try:
                model_of(name)
            except ModelNotFoundError as error:
                raise ValueError(str(error)) from None
        return chosen

    @field_validator("profile_dir")
    @classmethod
    def _profiles_can_be_read(cls, folder: Path | None) -> Path | None:
        try:
            load_profiles(folder)
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from None
        return folder

    @model_validator(mode="after")
    def _qdrant_files_can_be_used(self) -> RetrievalSettings:
        if self.qdrant_tls is not None:
            self.qdrant_tls.context()
        return self

    @property
    def qdrant_tls(self) -> TlsFiles | None:
        """The files of TLS to Qdrant; `None` where no setting names one."""
        files = (self.qdrant_ca_file, self.qdrant_cert_file, self.qdrant_key_file)
        server = urlsplit(self.qdrant_url or "").netloc.rpartition("@")[2]
        return TlsFiles("QDRANT", *files, server=server) if any(files) else None

    @property
    def server(self) -> dict[str, Any]:
        """The arguments of `open_store` for a Qdrant server."""
        key = self.qdrant_api_key
        options = StoreOptions(
            api_key=key.get_secret_value() if key is not None else None,
            tls=self.qdrant_tls,
            min_free_bytes=self.min_free_mib * 2**20,
            grpc_port=self.qdrant_grpc_port,
            layouts=self.collection_layouts,
            remaining_s=_remaining_s,
        )
        return {"url": self.qdrant_url, "options": options}

    @property
    def store_folder(self) -> Path:
        """Where the embedded engine keeps its files."""
        return (self.data_dir or data_folder()) / "qdrant"


def _remaining_s() -> float | None:
    """The time left of the request that the current task handles."""
    deadline = received_deadline.get()
    return None if deadline is None else deadline.remaining_s
