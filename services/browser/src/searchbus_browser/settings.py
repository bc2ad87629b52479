"""Settings of the browser service (environment prefix SEARCHBUS_)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

from pydantic import Field

from searchbus_runtime import ServiceSettings


class BrowserSettings(ServiceSettings):
    """What the browser service reads."""

    browser_chromium: Path | None = None
    """The program Chromium, such as /usr/bin/chromium; naming it turns the service on in
    `searchbus up`. Default: chromium of the PATH."""
    browser_pages: Annotated[int, Field(ge=1, le=64)] = 2
    """Pages at once, each in a Chromium of its own; others wait, and callers take turns."""
    browser_page_timeout_s: Annotated[float, Field(gt=0, le=60)] = 8.0
    """How long a page may load; its text is what is there then."""
    browser_page_memory_mb: Annotated[int, Field(ge=128, le=16_384)] = 768
    """Memory of all processes of one page; a page that takes more is ended."""
    browser_sandbox: bool = True
    """Chromium's own sandbox. It needs user namespaces and a user other than root: turn it off only
    in a container, which then is the sandbox."""
    web_routes: dict[str, str] = Field({})
    """Allowlist of hosts, as of the service web, which reads the same variable."""

    @property
    def chromium(self) -> Path | None:
        """The program; None where there is none."""
        names = ("chromium", "chromium-browser", "google-chrome")
        found = self.browser_chromium or next(filter(None, map(shutil.which, names)), None)
        return Path(found) if found and shutil.which(found) else None
