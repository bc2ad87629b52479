"""What an import loads."""

from __future__ import annotations

import subprocess
import sys

import searchbus_upstream


def test_cleaning_of_text_needs_no_http_client():
    """The processes that parse pages import nothing else of the package."""
    program = "import searchbus_upstream.text, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"httpx", "httpcore", "opentelemetry", "asyncio"} & set(done.stdout.split())


def test_every_exported_name_exists():
    """In the module that the table names for it."""
    for name in searchbus_upstream.__all__:
        assert getattr(searchbus_upstream, name) is not None
