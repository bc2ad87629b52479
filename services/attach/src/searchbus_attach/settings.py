"""Settings of the service that attaches MCP servers (environment prefix SEARCHBUS_)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from searchbus_runtime import ServiceSettings, data_folder

__all__ = ["FILE_NAME", "PINS_NAME", "AttachSettings"]

FILE_NAME = "attach.toml"
PINS_NAME = "attach-pins.json"


class AttachSettings(ServiceSettings):
    """Settings of the service that attaches MCP servers."""

    attach_file: Path | None = Field(
        None,
        description="The attached servers: TOML, or the `mcpServers` JSON of a desktop host. "
        "Default: attach.toml in the data folder.",
    )
    attach_pins_file: Path | None = Field(
        None, description="The approved definitions. Default: attach-pins.json in the data folder."
    )
    # Calls only wait here; each server has a limit of its own.
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] = 2048
    attach_poll_s: Annotated[float, Field(gt=0, le=86_400)] = Field(
        300.0, description="Between two reads of a server's list, less or more by a fifth."
    )
    attach_grace_s: Annotated[float, Field(ge=0, le=30 * 86_400)] = Field(
        86_400.0, description="How long the last list of a server that is away stays listed."
    )

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.data_dir or data_folder()

    @property
    def file(self) -> Path:
        """The file of attached servers."""
        return self.attach_file or self.folder / FILE_NAME

    @property
    def pins(self) -> Path:
        """The file of approved definitions."""
        return self.attach_pins_file or self.folder / PINS_NAME
