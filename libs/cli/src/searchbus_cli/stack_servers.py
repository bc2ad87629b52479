"""What a stack starts before its services: the NATS server and, on request, fake upstreams."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from .children import Child
from .errors import StackError
from .nats_server import bound_port, nats_server_binary, write_configuration
from .processes import Processes

# For slow and busy machines: a process that cannot start ends the stack long before.
NATS_TIMEOUT_S = 120.0
FAKES_TIMEOUT_S = 300.0

NewChild = Callable[[str, list[str], dict[str, str]], Child]
"""Makes a process of a label, a command and an environment."""


async def start_nats(
    data: Path, processes: Processes, new_child: NewChild, *, authorization: str
) -> int:
    """Start NATS and return its port.

    Args:
        authorization: its configuration of users; empty without access control.

    Raises:
        StackError: it did not start.
    """
    folder = data / "nats"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    config = write_configuration(folder, authorization=authorization)
    command = [str(nats_server_binary()), "-c", str(config)]
    processes.keep(new_child("nats", command, {}), "nats")

    async def listens() -> bool:
        return bound_port(folder) is not None

    await processes.wait_until(
        listens,
        timeout_s=NATS_TIMEOUT_S,
        otherwise=f"nats-server did not start within {NATS_TIMEOUT_S:.0f} s. See {data / 'logs'}.",
    )
    port = bound_port(folder)
    assert port is not None
    # A restarted server comes back on the port that every process knows.
    write_configuration(folder, port=port, authorization=authorization)
    return port


async def start_fakes(data: Path, processes: Processes, new_child: NewChild) -> dict[str, str]:
    """Start the fake search engines and pages of this checkout; the settings that lead to them.

    Raises:
        StackError: they did not start, or this is not a checkout.
    """
    root = Path(__file__).parents[4]
    if not (root / "tests" / "fakes" / "__main__.py").is_file():
        raise StackError("--fake-upstreams works in a checkout of searchbus only.")
    written = data / "fakes.json"
    written.unlink(missing_ok=True)
    arguments = [sys.executable, "-m", "tests.fakes", "--settings", str(written)]
    processes.keep(new_child("fakes", arguments, {"PYTHONPATH": str(root)}), "fakes")

    async def listen() -> bool:
        return written.exists()

    await processes.wait_until(
        listen,
        timeout_s=FAKES_TIMEOUT_S,
        otherwise=f"The fake upstreams did not start. See {data / 'logs'}.",
    )
    environment: dict[str, str] = json.loads(written.read_text())["environment"]
    return environment
