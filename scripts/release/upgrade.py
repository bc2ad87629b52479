"""`python -m scripts.release.upgrade OLD NEW`: an upgrade on one data folder, tried.

OLD and NEW are environments of Python with searchbus. The stack of OLD ingests a document and ends;
the stack of NEW on the same folder must find it. Both must speak the same version of the wire.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .changes import RefusedError

TEXT = "The lighthouse keeper of Skerryvore counts puffins on Tuesdays."
QUESTION = "who counts puffins"
_START_TIMEOUT_S = 300
_STOP_TIMEOUT_S = 150
_COMMAND_TIMEOUT_S = 300
_WIRE = "from searchbus_contracts.catalog import CONTRACT_VERSION as v; print(v)"


def wire_of(environment: Path) -> str:
    """The version of the wire that an environment speaks, such as v1."""
    python = environment / "bin" / "python"
    return subprocess.check_output([python, "-I", "-c", _WIRE], text=True).strip()


@contextmanager
def stack(environment: Path, data: Path) -> Iterator[None]:
    """`searchbus up` on a data folder, ready.

    Raises:
        RefusedError: it does not start or does not end, with the end of what it printed.
    """
    state, log = data / "state.json", data.with_suffix(".log")
    state.unlink(missing_ok=True)
    command = [environment / "bin" / "searchbus", "up", "--port", "0", "--data", data]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=_environment(data))
    try:
        give_up_s = time.monotonic() + _START_TIMEOUT_S
        while not state.exists():
            if process.poll() is not None or time.monotonic() > give_up_s:
                raise RefusedError(f"{command[0]} up is not ready:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RefusedError(f"{command[0]} up does not end by SIGTERM") from None


def check(old: Path, new: Path) -> None:
    """Upgrade a data folder from one environment to the other.

    Raises:
        RefusedError: the wire differs, a command fails, or the document is lost.
    """
    before, after = wire_of(old), wire_of(new)
    if before != after:
        raise RefusedError(
            f"The release before speaks version {before} of the wire, this one {after}: workers of "
            "both do not work together. Serve both versions for one release (proto/README.md § 2)."
        )
    with tempfile.TemporaryDirectory(prefix="searchbus-upgrade-") as folder:
        data, source = Path(folder) / "data", Path(folder) / "notes"
        data.mkdir()
        source.mkdir()
        (source / "note.md").write_text(f"# Note\n\n{TEXT}\n")
        with stack(old, data):
            _run(old, data, "ingest", source, "--collection", "notes")
        with stack(new, data):
            found = _run(new, data, "search", QUESTION, "--collection", "notes", "--json")
    if "puffins" not in json.dumps(json.loads(found)):
        raise RefusedError(f"The document of the release before is not found after it: {found}")


def _run(environment: Path, data: Path, *arguments: object) -> str:
    done = subprocess.run(
        [environment / "bin" / "searchbus", *map(str, arguments)],
        env=_environment(data), capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode:
        raise RefusedError(f"searchbus {arguments[0]} of {environment}: {done.stderr[-2000:]}")
    return done.stdout


def _environment(data: Path) -> dict[str, str]:
    """Without our own settings, which the older release may not know."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("SEARCHBUS_")}
    return own | {"SEARCHBUS_DATA_DIR": str(data)}


if __name__ == "__main__":
    check(*map(Path, sys.argv[1:3]))
    sys.stdout.write("upgrade: the document is found\n")
