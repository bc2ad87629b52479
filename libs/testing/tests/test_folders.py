"""Temporary folders in memory; locks between processes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from searchbus_testing.folders import locked, quick_folder


def test_others_wait_until_the_block_ends(tmp_path):
    """Each finds the file as the one before it has left it."""
    number = tmp_path / "number"
    number.write_text("0")

    def add(_: int) -> None:
        with locked(tmp_path / "new" / "lock"):
            number.write_text(f"{int(number.read_text()) + 1}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(200)))
    assert number.read_text() == "200"


def test_process_that_ends_in_the_block_leaves_no_lock(tmp_path):
    """The next one gets in."""
    program = (
        "import os, pathlib, sys\n"
        "from searchbus_testing.folders import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n"
        "    os._exit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "lock"])
    assert done.returncode == 3
    with locked(tmp_path / "lock"):
        pass


def test_folder_is_removed_with_its_content():
    """Also one that is not empty."""
    with quick_folder() as folder:
        (folder / "a").mkdir()
        (folder / "a" / "b").write_text("x")
    assert not folder.exists()
