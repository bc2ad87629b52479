"""How our programs start Python."""

from __future__ import annotations

import subprocess

from searchbus_runtime.python import python


def test_nothing_is_imported_from_the_working_folder(tmp_path):
    """Neither in the place of a module of ours, nor of one that it imports."""
    for name in ("searchbus_runtime", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the folder')\n")
    done = subprocess.run(
        python("-m", "searchbus_runtime"), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr.startswith("usage: python -m searchbus_runtime NAME")
