"""A nats-server process for tests."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .processes import free_port
from .waiting import eventually

NATS_SERVER = Path(sys.executable).with_name("nats-server")


@dataclass
class NatsServer:
    """A nats-server on loopback that can be killed and started again on its port.

    Args:
        folder: for its log.
        port: -1 takes a free one.
        arguments: added to its command line, e.g. `("-js", "-sd", folder)`.
    """

    folder: Path
    port: int = -1
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Of the form nats://127.0.0.1:PORT."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process and wait until it accepts connections."""
        chosen = self.port == -1
        while True:
            if chosen:
                self.port = free_port()
            try:
                self._start()
                return
            except AssertionError as ended:
                # Another process has taken the port since it was chosen.
                if not (chosen and "address already in use" in str(ended)):
                    raise

    def _start(self) -> None:
        log = self.folder / "nats.log"
        log.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [NATS_SERVER, "-a", "127.0.0.1", "-p", str(self.port), "-l", log,
             *self.arguments]
        )  # fmt: skip

        def text() -> str:
            return log.read_text() if log.exists() else ""

        def ready() -> bool:
            ended = self.process is not None and self.process.poll() is not None
            assert not ended, f"nats-server ended:\n{text()}"
            return "Server is ready" in text()

        eventually(ready, interval_s=0.02, message=text)

    def stop(self) -> None:
        """Kill the process; `start` starts another one on the same port."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
