"""The lock of a data folder."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time

import pytest

from searchbus_cli.claiming import claim_folder
from searchbus_cli.errors import AlreadyRunning
from searchbus_runtime import StackState, write_state
from searchbus_runtime.state import LOCK_FILE, is_claimed


def test_folder_is_made_for_its_owner_and_claimed_until_the_file_is_closed(tmp_path):
    """With the folders above it."""
    data = tmp_path / "a" / "data"
    with claim_folder(data):
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert is_claimed(data)
    assert not is_claimed(data)


def test_second_claim_names_the_stack_that_runs(tmp_path):
    """Where it says in the folder how it is reached."""
    with claim_folder(tmp_path):
        with pytest.raises(AlreadyRunning, match=f"already running on {tmp_path}. Use it"):
            claim_folder(tmp_path)
        write_state(StackState("http://127.0.0.1:1", "", str(tmp_path), os.getpid()))
        with pytest.raises(AlreadyRunning, match=f"at http://127.0.0.1:1 .process {os.getpid()}"):
            claim_folder(tmp_path)


def test_process_that_only_looks_at_the_lock_does_not_refuse_a_stack(tmp_path):
    """It holds the lock for a moment."""
    lock = (tmp_path / LOCK_FILE).open("w")
    fcntl.flock(lock, fcntl.LOCK_SH)
    looking = threading.Thread(target=lambda: (time.sleep(0.02), lock.close()))
    looking.start()
    claim_folder(tmp_path).close()
    looking.join()
